-- The states of a task (model/states.py), how answers are written, and names of attempts
-- (model/ids.py).
--
-- Operations arrive and answers leave as msgpack, in the form that msgspec gives the structs of
-- model/operations.py and model/answers.py. An operation is a map of field names, with the struct's
-- name as "type"; an answer is an array: the struct's name, then its fields in order.
-- Lua has only doubles. They hold every integer up to 2^53, infinity, and every float exactly;
-- cmsgpack writes 3.0 as 3, which msgspec reads back as 3.0 where a float belongs.

-- Set by each call: while a library is loaded, the server does not let it have them.
local call, pack, unpack_all, unpack_some, concat, char, sub, find

local FINAL = { complete = true, failed = true, removed = true }
local IN_VAIN = { failed = true, removed = true }
local PROGRESS = { ready = 0, ["stage-in"] = 1, running = 2, ["stage-out"] = 3 }

local INFINITY = 1 / 0
-- A TaskSpec begins with so many bytes that say how many fields it has.
local PARENTS_AFTER = 3

local NOWHERE, NOBODY = "", ""
local GUESS = { seconds = 1.0, spread = INFINITY }

-- Stands for a table that is not there; nothing is ever put into it.
local NONE = {}

-- A command takes at most so many keys or fields at once: they pass through Lua's stack.
local ARGUMENTS_MAX = 1000

local function big_endian_16(number)
  return char(math.floor(number / 256), number % 256)
end

local function big_endian_32(number)
  return big_endian_16(math.floor(number / 65536)) .. big_endian_16(number % 65536)
end

-- What is packed most often is short, and put together here, which takes less time than `pack`.
-- ``numbers`` has whole numbers up to 127, packed; ``starts`` has what begins a packed string, by its
-- length. What is done most often uses them as these functions do, and spares calling them.
local NIL, FALSE, TRUE = "\192", "\194", "\195"
local numbers, starts = {}, {}

local function fill_words()
  for number = 0, 127 do
    numbers[number] = pack(number)
  end
  for length = 0, 255 do
    starts[length] = length < 32 and char(160 + length) or "\217" .. char(length)
  end
end

local function packed_number(number)
  return numbers[number] or pack(number)
end

local function long_start(length)
  return "\219" .. big_endian_32(length)
end

local function packed_string(text)
  return (starts[#text] or long_start(#text)) .. text
end

local function packed_flag(is_so)
  return is_so and TRUE or FALSE
end

local EMPTY_ARRAY = "\144"

local function array_start(count)
  return count < 16 and char(144 + count) or "\221" .. big_endian_32(count)
end

local function map_start(count)
  return count < 16 and char(128 + count) or "\223" .. big_endian_32(count)
end

-- A map of entries that are packed already; cmsgpack would write an empty table as an array.
local function packed_map(entries)
  return map_start(#entries) .. concat(entries)
end

local function packed_array(values)
  return array_start(#values) .. concat(values)
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

local function node_of(attempt)
  return parts_of(attempt) or NOBODY
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

-- Whether a name may be in packed values. It is not if this says so; if it may be, they must be read.
local function may_have(packed, name)
  return find(packed, name, 1, true) ~= nil
end

-- A `Copy` of which only the place is known, packed.
local function copy_of_unknown(file, node)
  return array_start(4) .. packed_string(file) .. packed_string(node) .. packed_number(-1)
    .. packed_string("")
end
