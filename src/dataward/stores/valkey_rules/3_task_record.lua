-- The record a shard keeps of one task (stores/task_record.py), and how the task's state follows
-- from it.
--
-- Kept apart, since it may be long and few operations need it, is the spec. What was heard of parents
-- and where the outputs are is part of the record while it is short. The history of states is not
-- kept: no answer tells of it.

-- ``about`` is the part of a `Standing` that never changes, packed. Most tasks have nothing in the
-- fields from ``void_before`` on, and then these are left out.
local function pack_task(record)
  local usual = pack(
    record.state, record.generation, record.waiting_for, record.about, record.backups_max,
    record.retries, record.places, record.attempts, record.holders, record.winner, record.placement,
    record.backups, record.heard_count, record.heard, record.inputs_count, record.inputs,
    record.outputs, record.outbox, record.outbox_at
  )
  local is_odd = record.void_before or record.failures or record.required or record.failed_parent
    or record.removed_parent or record.was_recalled or record.is_spread or record.is_heard_apart
  if not is_odd then
    return usual
  end
  return usual .. pack(
    true, record.void_before, record.failures, record.required, record.failed_parent,
    record.removed_parent, record.was_recalled, record.is_spread, record.is_heard_apart
  )
end

local function unpack_task(id, packed)
  local state, generation, waiting_for, about, backups_max, retries, places, attempts, holders,
    winner, placement, backups, heard_count, heard, inputs_count, inputs, outputs, outbox, outbox_at,
    is_odd, void_before, failures, required, failed_parent, removed_parent, was_recalled, is_spread,
    is_heard_apart = unpack_all(packed)
  local record = {
    id = id, state = state, generation = generation, waiting_for = waiting_for, about = about,
    backups_max = backups_max, retries = retries, places = places, attempts = attempts,
    holders = holders, winner = winner, placement = placement, backups = backups,
    heard_count = heard_count, heard = heard, inputs_count = inputs_count, inputs = inputs,
    outputs = outputs, outbox = outbox, outbox_at = outbox_at,
  }
  if is_odd then
    record.void_before, record.failures, record.required = void_before, failures, required
    record.failed_parent, record.removed_parent = failed_parent, removed_parent
    record.was_recalled, record.is_spread = was_recalled, is_spread
    record.is_heard_apart = is_heard_apart
  end
  return record
end

local function packed_spec(id)
  return new_specs[id] or call("HGET", key("specs"), id)
end

local function preferred_of(record)
  return (unpack_all(record.about))
end

-- Three fields of the spec, each packed as the spec has it. ``places`` says where they begin.
local function parts_of_spec(record)
  local packed = packed_spec(record.id)
  local children, inputs, outputs, past = unpack_all(record.places)
  return sub(packed, children + 1, inputs), sub(packed, inputs + 1, outputs),
    sub(packed, outputs + 1, past)
end

local function children_of(record)
  return (parts_of_spec(record))
end

local function parents_of(record)
  local _, _, _, parents = unpack_some(packed_spec(record.id), 3, PARENTS_AFTER)
  return parents
end

local function new_task(op)
  return {
    id = op.task, state = "waiting", generation = 0, waiting_for = op.parents, about = op.about,
    backups_max = op.backups_max, retries = op.retries, places = pack(unpack(op.places)),
    attempts = {}, holders = {},
    winner = NOBODY, placement = 0, backups = 0, heard_count = 0, heard = "", inputs_count = 0,
    inputs = "",
  }
end

local function find_task(id)
  local record = tasks[id]
  if record == nil then
    local packed = call("HGET", key("tasks"), id)
    record = packed and unpack_task(id, packed)
    tasks[id], tasks_as_read[id] = record, packed
  end
  return record
end

-- --- what was heard of parents -------------------------------------------------------------------
-- While it is short, the record has it: ``heard`` has the notices and ``inputs`` the input copies,
-- each packed one after the other as answers have them, so that they need not be read to be answered
-- or added to. ``required`` has the generations required of parents, where that is not the first.
--
-- What is long is a hash of its own, since a task may have thousands of parents: "n" and a parent has
-- its notice, "r" and a parent the generation required of it, "c" and a file the place of its input
-- copy among the others, its node and its size, "d" and a file the digest. A server keeps a hash in
-- one piece as long as no value is longer than 64 bytes, which takes less memory; so the digest is a
-- value of its own.

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
    packed[#packed + 1] = pack(parent, generation)
  end
  record.heard_count, record.heard = #packed, concat(packed)
end

-- Whether a name may be in packed values. It is not if this says so; if it may be, they must be read.
local function may_have(packed, name)
  return string.find(packed, name, 1, true) ~= nil
end

local function put_notice(record, parent, generation)
  if may_have(record.heard, parent) then
    local notices = read_notices(record)
    notices[parent] = generation
    write_notices(record, notices)
  else
    record.heard_count = record.heard_count + 1
    record.heard = record.heard .. pack(parent, generation)
  end
end

local function put_input_copy(record, copy)
  if may_have(record.inputs, copy[1]) then
    local copies = { unpack_all(record.inputs) }
    for i, each in ipairs(copies) do
      if each[1] == copy[1] then
        copies[i] = copy
        record.inputs = pack(unpack(copies))
        return
      end
    end
  end
  record.inputs_count = record.inputs_count + 1
  record.inputs = record.inputs .. pack(copy)
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
  for _, copy in ipairs({ unpack_all(record.inputs) }) do
    add_input_copy(news, next_place(), copy)
  end
  write_fields(key("heard", record.id), news)
  record.is_heard_apart, record.required = true, nil
  record.heard_count, record.heard, record.inputs_count, record.inputs = 0, "", 0, ""
end

-- The generation known of a parent, and the one required of it.
local function known_and_required(record, parent)
  if record.is_heard_apart then
    local found = call("HMGET", key("heard", record.id), "n" .. parent, "r" .. parent)
    return tonumber(found[1] or 0), tonumber(found[2] or 1)
  end
  local known = may_have(record.heard, parent) and read_notices(record)[parent] or 0
  return known, record.required and record.required[parent] or 1
end

local function require_generation(record, parent, generation)
  if record.is_heard_apart then
    call("HSET", key("heard", record.id), "r" .. parent, generation)
  else
    record.required = record.required or {}
    record.required[parent] = generation
  end
end

-- Note a parent's generation unless it is 0, and where its files are.
local function hear(record, parent, generation, copies)
  local room = HEARD_BYTES_MAX - #record.heard - #record.inputs
  if not record.is_heard_apart and NOTICE_BYTES * (#copies + 1) > room then
    set_heard_apart(record)
  end
  if not record.is_heard_apart then
    if generation > 0 then
      put_notice(record, parent, generation)
    end
    for _, copy in ipairs(copies) do
      put_input_copy(record, copy)
    end
    return
  end
  local fields, news = {}, {}
  for i, copy in ipairs(copies) do
    fields[i] = "c" .. copy[1]
  end
  local found = #fields > 0 and read_fields(key("heard", record.id), fields) or {}
  for i, copy in ipairs(copies) do
    add_input_copy(news, found[i] and place_of(found[i]) or next_place(), copy)
  end
  if generation > 0 then
    news[#news + 1] = "n" .. parent
    news[#news + 1] = generation
  end
  write_fields(key("heard", record.id), news)
end

-- The parents that have not reached the generation this task requires, and which that is.
local function missing(record)
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

local function hear_of_all_parents(record)
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

-- The notices by parent, and the input copies in order, both packed.
local function all_heard(record)
  if not record.is_heard_apart then
    return map_header(record.heard_count) .. record.heard,
      array_header(record.inputs_count) .. record.inputs
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

-- --- copies of outputs ---------------------------------------------------------------------------
-- At first all are where the commit left them: the record has them as `Copy`s, or {tag}outputs if
-- they are many. Once anybody adds or drops a copy they are spread: {tag}copies:T has a field for each
-- file ("f") and for each node that holds it ("n"), with their places.

local OUTPUTS_BYTES_MAX = 1024

local function packed_outputs(record)
  return record.outputs or new_outputs[record.id] or call("HGET", key("outputs"), record.id)
end

-- The outputs as committed, and the files that were written though the spec does not declare them.
local function committed_outputs(record)
  local packed = packed_outputs(record)
  if not packed then
    return {}, {}
  end
  return unpack_all(packed)
end

local function node_field(file, node)
  return "n" .. file .. "\0" .. node
end

-- How many copies are new.
local function add_copies(owner_key, copies)
  local added = 0
  for _, copy in ipairs(copies) do
    local file, node = copy[1], copy[2]
    call("HSETNX", owner_key, "f" .. file, next_place())
    added = added + call("HSETNX", owner_key, node_field(file, node), next_place())
  end
  return added
end

-- How many copies there were.
local function drop_copies(owner_key, copies)
  local dropped = 0
  for _, copy in ipairs(copies) do
    dropped = dropped + call("HDEL", owner_key, node_field(copy[1], copy[2]))
  end
  return dropped
end

-- A list of {file, nodes}, both in the order they came in.
local function read_copies(owner_key)
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

local function spread_copies(record)
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
local function known_copies(record)
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
local function clear_copies(record)
  if record.is_spread then
    call("DEL", key("copies", record.id))
  end
  record.is_spread = true
end

-- Keep the outputs as a commit tells of them, and return them as `Copy`s, packed; those that an
-- earlier commit told of are forgotten.
local function keep_outputs(record, op, declared)
  clear_copies(record)
  record.is_spread = nil
  local written, absent = {}, {}
  for _, output in ipairs(op.outputs) do
    written[output[1]] = output
  end
  for _, file in ipairs(op.absent) do
    absent[file] = true
  end
  local copies, undeclared = {}, {}
  for i, output in ipairs(declared) do
    local file = output[1]
    local as_written = written[file]
    written[file] = nil
    copies[i] = {
      file, absent[file] and NOWHERE or op.node, as_written and as_written[2] or -1,
      as_written and as_written[3] or "",
    }
  end
  if next(written) then
    for _, output in ipairs(op.outputs) do
      if written[output[1]] then
        undeclared[#undeclared + 1] = { output[1], NOWHERE, output[2], output[3] }
      end
    end
  end
  local packed_copies = pack(copies)
  local packed = packed_copies .. pack(undeclared)
  if #packed > OUTPUTS_BYTES_MAX then
    record.outputs, new_outputs[record.id] = nil, packed
  else
    record.outputs = packed
  end
  return packed_copies
end

-- --- attempts ------------------------------------------------------------------------------------

local function hold(record, node)
  if not is_listed(record.holders, node) then
    record.holders[#record.holders + 1] = node
  end
end

local function void(record, node, before)
  record.void_before = record.void_before or {}
  local known = record.void_before[node]
  if known == nil or is_before(known, before) then
    record.void_before[node] = before
  end
end

-- End the attempts of this and earlier incarnations of a node; none may act any more.
local function fence(record, node, incarnation)
  void(record, node, { incarnation + 1, 0 })
  for name, attempt in pairs(record.attempts) do
    if attempt[1] == node and attempt[2] <= incarnation then
      record.attempts[name] = nil
    end
  end
end

-- Whether the attempt was on the list; it is taken off for good.
local function end_attempt(record, attempt)
  local node, incarnation, count = parts_of(attempt)
  void(record, node, { incarnation, count + 1 })
  local was_listed = record.attempts[attempt] ~= nil
  record.attempts[attempt] = nil
  return was_listed
end

local function why_void(record, node, attempt)
  local first = record.void_before and record.void_before[node]
  if first == nil then
    return nil
  end
  local _, incarnation, count = parts_of(attempt)
  if not is_before({ incarnation, count }, first) then
    return nil
  end
  return incarnation < first[1] and "fenced" or "over"
end

local function count_attempts(record)
  local count = 0
  for _ in pairs(record.attempts) do
    count = count + 1
  end
  return count
end

local function has_attempt_of(record, node)
  for _, attempt in pairs(record.attempts) do
    if attempt[1] == node then
      return true
    end
  end
  return false
end

-- Change the state, and the shard's counts with it.
local function move(record, to)
  local counts = shard.counts
  counts[record.state] = counts[record.state] - 1
  counts[to] = counts[to] + 1
  record.state = to
end

-- Move to the state that attempts and notices imply, unless the task is finished.
local function settle_record(record)
  if FINAL[record.state] then
    return
  end
  local furthest
  for _, attempt in pairs(record.attempts) do
    if not furthest or PROGRESS[attempt[3]] > PROGRESS[furthest] then
      furthest = attempt[3]
    end
  end
  move(record, furthest or (record.waiting_for > 0 and "waiting" or "ready"))
end
