-- The states of a task (model/states.py), how answers are written, and names of attempts
-- (model/ids.py).
--
-- Operations arrive and answers leave as msgpack, in the form that msgspec gives the structs of
-- model/operations.py and model/answers.py. An operation is a map of field names, with the struct's
-- name as "type"; an answer is an array: the struct's name, then its fields in order.
-- Lua has only doubles. They hold every integer up to 2^53, infinity, and every float exactly;
-- cmsgpack writes 3.0 as 3, which msgspec reads back as 3.0 where a float belongs.

-- Set by each call: while a library is loaded, the server does not let it have them.
local call, pack, unpack_all, unpack_some, concat, char, sub

local FINAL = { complete = true, failed = true, removed = true }
local IN_VAIN = { failed = true, removed = true }
local PROGRESS = { ready = 0, ["stage-in"] = 1, running = 2, ["stage-out"] = 3 }

local INFINITY = 1 / 0
-- A TaskSpec begins with so many bytes that say how many fields it has.
local PARENTS_AFTER = 3

local NOWHERE, NOBODY = "", ""
local GUESS = { seconds = 1.0, spread = INFINITY }

-- A command takes at most so many keys or fields at once: they pass through Lua's stack.
local ARGUMENTS_MAX = 1000

local function big_endian_16(number)
  return char(math.floor(number / 256), number % 256)
end

local function array_header(count)
  return "\221" .. big_endian_16(math.floor(count / 65536)) .. big_endian_16(count % 65536)
end

local function map_header(count)
  return "\223" .. big_endian_16(math.floor(count / 65536)) .. big_endian_16(count % 65536)
end

-- A map of entries that are packed already; cmsgpack would write an empty table as an array.
local function packed_map(entries)
  return map_header(#entries) .. concat(entries)
end

local function packed_array(values)
  return array_header(#values) .. concat(values)
end

local EMPTY_ARRAY = "\144"

local array_starts = {} -- of short arrays, by their length
local function array_start(count)
  local start = array_starts[count]
  if not start then
    start = array_header(count)
    array_starts[count] = start
  end
  return start
end

-- The answer of this type with these fields.
local function answer(type, ...)
  return array_start(select("#", ...) + 1) .. pack(type, ...)
end

-- node, incarnation, count. The node's name may contain dots.
local function parts_of(attempt)
  local node, incarnation, count = string.match(attempt, "^(.*)%.([^.]*)%.([^.]*)$")
  return node, tonumber(incarnation), tonumber(count)
end

local function incarnation_of(attempt)
  local _, incarnation = parts_of(attempt)
  return incarnation
end

-- Whether the number (incarnation, count) of one attempt comes before that of another.
local function is_before(number, other)
  if number[1] ~= other[1] then
    return number[1] < other[1]
  end
  return number[2] < other[2]
end

local function is_listed(list, wanted)
  for _, each in ipairs(list) do
    if each == wanted then
      return true
    end
  end
  return false
end
