-- What a task was told of its parents. While that is short, the task's record has it: ``heard`` has the
-- notices and ``inputs`` the input copies, each packed one after the other as answers have them, so
-- that they need not be read to be answered or added to. ``sources`` has the names and nodes of the
-- same copies, which is all that is left of them when the task has ended. ``heard_generation`` is the
-- generation of all notices, 0 if they differ. ``required`` has the generations required of parents,
-- where that is not the first.
--
-- What is long is a hash of its own, since a task may have thousands of parents: "n" and a parent has
-- its notice, "r" and a parent the generation required of it, "c" and a file the place of its input
-- copy among the others, its node and its size, "d" and a file the digest. A server keeps a hash in
-- one piece as long as no value is longer than 64 bytes, which takes less memory; so the digest is a
-- value of its own.

local hear, known_and_required, require_generation, missing, hear_of_all_parents
local forget_contents_of_inputs, all_heard
do

local HEARD_BYTES_MAX = 1024
local NOTICE_BYTES = 128 -- about as much as a notice takes for each file it tells of
local PLACE_DIGITS = 16

-- Fields and values for a copy of an input.
local function add_input_copy(news, place, copy)
  news[#news + 1] = "c" .. copy[1]
  news[#news + 1] = string.format("%016.0f", place) .. pack(copy[2], copy[3])
  news[#news + 1] = "d" .. copy[1]
  news[#news + 1] = copy[4]
end

local function place_of(value)
  return tonumber(string.sub(value, 1, PLACE_DIGITS))
end

-- The notices by parent, of a record that has them itself.
local function read_notices(record)
  local notices, found = {}, { unpack_all(record.heard) }
  for i = 1, #found, 2 do
    notices[found[i]] = found[i + 1]
  end
  return notices
end

local function write_notices(record, notices)
  local packed = {}
  for parent, generation in pairs(notices) do
    packed[#packed + 1] = packed_string(parent) .. packed_number(generation)
  end
  record.heard_count, record.heard, record.heard_generation = #packed, concat(packed), 0
end

local function put_notice(record, parent, generation)
  if may_have(record.heard, parent) then
    local notices = read_notices(record)
    notices[parent] = generation
    write_notices(record, notices)
  else
    local is_alike = record.heard_count == 0 or record.heard_generation == generation
    record.heard_generation = is_alike and generation or 0
    record.heard_count = record.heard_count + 1
    record.heard = record.heard .. packed_string(parent) .. packed_number(generation)
  end
end

-- The input copies of a record that has them itself, packed one after the other.
local function input_copies(record)
  if record.inputs ~= "" then
    return record.inputs
  end
  local found, copies = { unpack_all(record.sources) }, {}
  for i = 1, #found, 2 do
    copies[#copies + 1] = copy_of_unknown(found[i], found[i + 1])
  end
  return concat(copies)
end

local function replace_input_copy(record, file, packed)
  local copies, sources = { unpack_all(input_copies(record)) }, {}
  for i, copy in ipairs(copies) do
    copies[i] = copy[1] == file and unpack_all(packed) or copy
    sources[i] = packed_string(copies[i][1]) .. packed_string(copies[i][2])
  end
  record.inputs, record.sources = pack(unpack(copies)), concat(sources)
end

local function has_input_copy(record, file)
  if may_have(record.sources, file) then
    local found = { unpack_all(record.sources) }
    for i = 1, #found, 2 do
      if found[i] == file then
        return true
      end
    end
  end
  return false
end

local function put_input_copy(record, file, node, packed)
  if has_input_copy(record, file) then
    replace_input_copy(record, file, packed)
  else
    record.inputs = input_copies(record) .. packed
    record.sources = record.sources .. packed_string(file) .. packed_string(node)
  end
end

-- Give what was heard a hash of its own.
local function set_heard_apart(record)
  local news = {}
  for parent, generation in pairs(read_notices(record)) do
    news[#news + 1] = "n" .. parent
    news[#news + 1] = generation
  end
  for parent, generation in pairs(record.required or {}) do
    news[#news + 1] = "r" .. parent
    news[#news + 1] = generation
  end
  for _, copy in ipairs({ unpack_all(input_copies(record)) }) do
    add_input_copy(news, next_place(), copy)
  end
  write_fields(key("heard", record.id), news)
  record.is_heard_apart, record.required = true, nil
  record.heard_count, record.heard, record.heard_generation = 0, "", 0
  record.inputs, record.sources = "", ""
end

-- The generation known of a parent, and the one required of it.
function known_and_required(record, parent)
  if record.is_heard_apart then
    local found = call("HMGET", key("heard", record.id), "n" .. parent, "r" .. parent)
    return tonumber(found[1] or 0), tonumber(found[2] or 1)
  end
  local known = may_have(record.heard, parent) and read_notices(record)[parent] or 0
  return known, record.required and record.required[parent] or 1
end

function require_generation(record, parent, generation)
  if record.is_heard_apart then
    call("HSET", key("heard", record.id), "r" .. parent, generation)
  else
    record.required = record.required or {}
    record.required[parent] = generation
  end
end

-- Note a parent's generation unless it is 0, and where its files are: the name of each, its node, and
-- the `Copy`, packed.
function hear(record, parent, generation, copies)
  local room = HEARD_BYTES_MAX - #record.heard - #record.inputs
  if not record.is_heard_apart and NOTICE_BYTES * (#copies / 3 + 1) > room then
    set_heard_apart(record)
  end
  if not record.is_heard_apart then
    if generation > 0 then
      put_notice(record, parent, generation)
    end
    for i = 1, #copies, 3 do
      put_input_copy(record, copies[i], copies[i + 1], copies[i + 2])
    end
    return
  end
  local fields, news = {}, {}
  for i = 1, #copies, 3 do
    fields[#fields + 1] = "c" .. copies[i]
  end
  for i, found in ipairs(read_fields(key("heard", record.id), fields)) do
    add_input_copy(news, found and place_of(found) or next_place(), unpack_all(copies[3 * i]))
  end
  if generation > 0 then
    news[#news + 1] = "n" .. parent
    news[#news + 1] = generation
  end
  write_fields(key("heard", record.id), news)
end

-- The parents that have not reached the generation this task requires, and which that is.
function missing(record)
  local found = {}
  if record.waiting_for == 0 then
    return found
  end
  local parents, notices, required = parents_of(record), {}, record.required or {}
  if record.is_heard_apart then
    local fields = {}
    for i, parent in ipairs(parents) do
      fields[2 * i - 1], fields[2 * i] = "n" .. parent, "r" .. parent
    end
    local values = read_fields(key("heard", record.id), fields)
    for i, parent in ipairs(parents) do
      notices[parent] = tonumber(values[2 * i - 1] or 0)
      required[parent] = tonumber(values[2 * i] or 1)
    end
  else
    notices = read_notices(record)
  end
  for _, parent in ipairs(parents) do
    if (notices[parent] or 0) < (required[parent] or 1) then
      found[parent] = required[parent] or 1
    end
  end
  return found
end

function hear_of_all_parents(record)
  for parent in pairs(missing(record)) do
    if record.is_heard_apart then
      local heard = key("heard", record.id)
      call("HSETNX", heard, "n" .. parent, 1)
      call("HDEL", heard, "r" .. parent)
    else
      local known = known_and_required(record, parent)
      hear(record, parent, math.max(known, 1), {})
      if record.is_heard_apart then
        call("HDEL", key("heard", record.id), "r" .. parent)
      elseif record.required then
        record.required[parent] = nil
      end
    end
  end
  record.waiting_for = 0
end

-- Keep only where the inputs were: the task has ended.
function forget_contents_of_inputs(record)
  record.inputs = ""
  if record.is_heard_apart then
    local heard, news = key("heard", record.id), {}
    local found = call("HGETALL", heard)
    for i = 1, #found, 2 do
      if sub(found[i], 1, 1) == "c" then
        local node = unpack_all(sub(found[i + 1], PLACE_DIGITS + 1))
        add_input_copy(news, place_of(found[i + 1]), { sub(found[i], 2), node, -1, "" })
      end
    end
    write_fields(heard, news)
  end
end

-- The notices by parent, and the input copies in order, both packed.
function all_heard(record)
  if not record.is_heard_apart then
    return map_start(record.heard_count) .. record.heard,
      array_start(select("#", unpack_all(record.sources)) / 2) .. input_copies(record)
  end
  local notices, places, nodes_and_sizes, digests = {}, {}, {}, {}
  local found = call("HGETALL", key("heard", record.id))
  for i = 1, #found, 2 do
    local kind, name, value = string.sub(found[i], 1, 1), string.sub(found[i], 2), found[i + 1]
    if kind == "n" then
      notices[#notices + 1] = pack(name, tonumber(value))
    elseif kind == "c" then
      places[#places + 1] = string.sub(value, 1, PLACE_DIGITS) .. name
      nodes_and_sizes[name] = string.sub(value, PLACE_DIGITS + 1)
    elseif kind == "d" then
      digests[name] = value
    end
  end
  table.sort(places) -- which all have as many digits
  local copies = {}
  for i, place_and_file in ipairs(places) do
    local file = string.sub(place_and_file, PLACE_DIGITS + 1)
    copies[i] = "\148" .. pack(file) .. nodes_and_sizes[file] .. pack(digests[file])
  end
  return packed_map(notices), packed_array(copies)
end

end
