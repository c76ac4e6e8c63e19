-- Who holds the outputs of a task, and the inputs of a workflow.
--
-- At first all outputs are where the commit left them: the record tells of them, or {tag}outputs if they
-- are many. Once anybody adds or drops a copy they are spread: {tag}copies:T has a field for each file
-- ("f") and for each node that holds it ("n"), with their places.

local add_copies, drop_copies, read_copies, spread_copies, known_copies, clear_copies, keep_outputs
do

local OUTPUTS_BYTES_MAX = 1024

local function packed_outputs(record)
  return record.outputs or find_field(keys.outputs, record.id)
end

local NOWHERE_PACKED = "\160"

-- Of a digest that begins with this, as `short_digest` in Python makes it, the rest is two digits a
-- byte.
local SHORT = "\0"
local digits -- by byte

local function whole_digest(digest)
  if sub(digest, 1, 1) ~= SHORT then
    return digest
  end
  if not digits then
    digits = {}
    for byte = 0, 255 do
      digits[char(byte)] = string.format("%02x", byte)
    end
  end
  return (string.gsub(sub(digest, 2), ".", digits))
end

-- The outputs as committed, and the files that were written though the spec does not declare them.
-- If all are where they were made, and declared, only sizes and digests are kept.
local function committed_outputs(record)
  local packed = packed_outputs(record)
  if not packed then
    return {}, {}
  end
  local found = { unpack_all(packed) }
  if type(found[1]) == "table" then
    return found[1], found[2]
  end
  local _, _, declared = parts_of_spec(record)
  local copies, node = unpack_all(declared), node_of(record.winner or NOBODY)
  for i, output in ipairs(copies) do
    copies[i] = { output[1], node, found[2 * i - 1], whole_digest(found[2 * i]) }
  end
  return copies, {}
end

local function node_field(file, node)
  return "n" .. file .. "\0" .. node
end

-- How many copies are new.
function add_copies(owner_key, copies)
  local added = 0
  for _, copy in ipairs(copies) do
    local file, node = copy[1], copy[2]
    call("HSETNX", owner_key, "f" .. file, next_place())
    added = added + call("HSETNX", owner_key, node_field(file, node), next_place())
  end
  return added
end

-- How many copies there were.
function drop_copies(owner_key, copies)
  local dropped = 0
  for _, copy in ipairs(copies) do
    dropped = dropped + call("HDEL", owner_key, node_field(copy[1], copy[2]))
  end
  return dropped
end

-- A list of {file, nodes}, both in the order they came in.
function read_copies(owner_key)
  local found, files, by_name = call("HGETALL", owner_key), {}, {}
  local holdings = {}
  for i = 1, #found, 2 do
    local kind, name, place = string.sub(found[i], 1, 1), string.sub(found[i], 2), found[i + 1]
    if kind == "f" then
      local file = { name = name, place = tonumber(place), nodes = {} }
      files[#files + 1] = file
      by_name[name] = file
    elseif kind == "n" then
      local file, node = string.match(name, "^(.*)%z(.*)$")
      holdings[#holdings + 1] = { file = file, node = node, place = tonumber(place) }
    end
  end
  local function by_place(one, other) return one.place < other.place end
  table.sort(files, by_place)
  table.sort(holdings, by_place)
  for _, holding in ipairs(holdings) do
    local nodes = by_name[holding.file].nodes
    nodes[#nodes + 1] = holding.node
  end
  return files
end

function spread_copies(record)
  if record.is_spread then
    return
  end
  record.is_spread = true
  for _, copy in ipairs((committed_outputs(record))) do
    if copy[2] == NOWHERE then
      call("HSETNX", key("copies", record.id), "f" .. copy[1], next_place())
    else
      add_copies(key("copies", record.id), { copy })
    end
  end
end

-- Where each output is; one that nobody has is NOWHERE.
function known_copies(record)
  local committed, undeclared = committed_outputs(record)
  if not record.is_spread then
    return committed
  end
  local written, copies = {}, {}
  for _, list in ipairs({ committed, undeclared }) do
    for _, copy in ipairs(list) do
      written[copy[1]] = copy
    end
  end
  for _, file in ipairs(read_copies(key("copies", record.id))) do
    local copy = written[file.name] or { file.name, NOWHERE, -1, "" }
    if #file.nodes == 0 then
      file.nodes[1] = NOWHERE
    end
    for _, node in ipairs(file.nodes) do
      copies[#copies + 1] = { file.name, node, copy[3], copy[4] }
    end
  end
  return copies
end

-- All copies are forgotten; what was written is still known.
function clear_copies(record)
  if record.is_spread then
    call("DEL", key("copies", record.id))
  end
  record.is_spread = true
end

-- Where in ``op.outputs`` a commit tells of each file: its name, size, digest and short digest.
local function places_of_outputs(op)
  local told, places = op.outputs or NONE, {}
  for i = 1, #told, 4 do
    places[told[i]] = i
  end
  return places
end

-- How a commit's outputs are kept in full: as `Copy`s, then those that the spec does not declare.
local function pack_in_full(op, copies, written)
  local undeclared = {}
  local told = op.outputs or NONE
  for i = 1, #told, 4 do
    if written[told[i]] == i then
      undeclared[#undeclared + 1] = { told[i], NOWHERE, told[i + 1], told[i + 2] }
    end
  end
  return copies .. pack(undeclared)
end

-- Keep the outputs as a commit tells of them, and return them as `Copy`s, packed; those that an
-- earlier commit told of are forgotten.
function keep_outputs(record, op, declared)
  clear_copies(record)
  record.is_spread = nil
  local written, absent, node = places_of_outputs(op), {}, packed_string(op.node)
  for _, file in ipairs(op.absent or NONE) do
    absent[file] = true
  end
  local copies, short = {}, {}
  for i, output in ipairs(declared) do
    local file, _, size, digest, short_digest = output[1], "", -1, "", ""
    local place = written[file]
    if place then
      _, size, digest, short_digest = unpack(op.outputs, place, place + 3)
      written[file] = nil
    end
    copies[i] = "\148" .. packed_string(file) .. (absent[file] and NOWHERE_PACKED or node)
      .. packed_number(size) .. packed_string(digest)
    short[i] = packed_number(size) .. packed_string(short_digest)
  end
  local packed_copies = array_start(#copies) .. concat(copies)
  local is_usual = not next(written) and not next(absent) and node_of(op.attempt) == op.node
  local packed = is_usual and concat(short) or pack_in_full(op, packed_copies, written)
  if #packed > OUTPUTS_BYTES_MAX then
    record.outputs = nil
    later("HSET", keys.outputs, record.id, packed)
  else
    record.outputs = packed
  end
  return packed_copies
end

end
