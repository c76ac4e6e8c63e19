-- The record a shard keeps of one task (stores/task_record.py), and how the task's state follows
-- from it.
--
-- Three things are kept apart, since they may be long and few operations need them: the spec, what
-- was heard of parents (notices, required, input copies), and the copies of outputs. The history of
-- states is not kept: no answer tells of it.

-- ``about`` is the part of a `Standing` that never changes, packed.
local function pack_task(record)
  return pack(
    record.state, record.generation, record.waiting_for, record.about, record.backups_max,
    record.retries, record.attempts, record.void_before, record.holders, record.backups,
    record.failures, record.winner, record.failed_parent, record.removed_parent,
    record.placement, record.was_recalled, record.is_spread, record.outbox, record.outbox_at
  )
end

local function unpack_task(id, packed)
  local state, generation, waiting_for, about, backups_max, retries, attempts, void_before,
    holders, backups, failures, winner, failed_parent, removed_parent, placement, was_recalled,
    is_spread, outbox, outbox_at = unpack_all(packed)
  return {
    id = id, state = state, generation = generation, waiting_for = waiting_for, about = about,
    backups_max = backups_max, retries = retries, attempts = attempts,
    void_before = void_before, holders = holders, backups = backups, failures = failures,
    winner = winner, failed_parent = failed_parent, removed_parent = removed_parent,
    placement = placement, was_recalled = was_recalled, is_spread = is_spread,
    outbox = outbox, outbox_at = outbox_at,
  }
end

-- The fields of a TaskSpec that a new record needs.
local function unpack_spec(packed)
  local spec = unpack_all(packed)
  return {
    type = spec[2], parents = spec[3], estimated_seconds = spec[7], retries = spec[10],
    preferred = spec[11], priority = spec[12], backups_max = spec[13], estimated_spread = spec[17],
  }
end

local function packed_spec(id)
  return new_specs[id] or call("HGET", key("specs"), id)
end

local function preferred_of(record)
  return unpack_spec(packed_spec(record.id)).preferred
end

-- The first fields of a TaskSpec, after the three bytes that say how many there are. The others are
-- not needed, and so not read.
local function spec_of(record)
  local _, _, _, parents, children, inputs, outputs =
    unpack_some(packed_spec(record.id), 6, 3)
  return { parents = parents, children = children, inputs = inputs, outputs = outputs }
end

local function new_task(id, packed)
  local spec = unpack_spec(packed)
  local is_known = spec.estimated_seconds > 0
  return {
    id = id, state = "waiting", generation = 0, waiting_for = #spec.parents,
    about = pack(
      "preferred", spec.preferred,
      "priority", spec.priority,
      "seconds", is_known and spec.estimated_seconds or GUESS.seconds,
      "spread", is_known and spec.estimated_spread or GUESS.spread,
      "task_type", spec.type
    ),
    backups_max = spec.backups_max, retries = spec.retries, attempts = {}, void_before = {},
    holders = {}, backups = 0, failures = {}, winner = NOBODY, placement = 0,
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
-- One hash for each task: "n" and a parent has its notice, "r" and a parent the generation required
-- of it, "c" and a file the place of its input copy among the others, its node and its size, "d" and
-- a file the digest. A server keeps a hash in one piece as long as no value is longer than 64 bytes,
-- which takes less memory; so the digest is a value of its own.

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

-- The parents that have not reached the generation this task requires, and which that is.
local function missing(record)
  local found = {}
  if record.waiting_for == 0 then
    return found
  end
  local parents = spec_of(record).parents
  for _, parent in ipairs(parents) do
    local heard = call("HMGET", key("heard", record.id), "n" .. parent, "r" .. parent)
    local required = tonumber(heard[2] or 1)
    if tonumber(heard[1] or 0) < required then
      found[parent] = required
    end
  end
  return found
end

local function hear_of_all_parents(record)
  for parent in pairs(missing(record)) do
    local heard = key("heard", record.id)
    call("HSETNX", heard, "n" .. parent, 1)
    call("HDEL", heard, "r" .. parent)
  end
  record.waiting_for = 0
end

-- The notices by parent, and the input copies in order, both packed.
local function all_heard(record)
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
-- At first all are where the commit left them: {tag}outputs has them as `Copy`s. Once anybody adds
-- or drops a copy they are spread: {tag}copies:T has a field for each file ("f") and for each node
-- that holds it ("n"), with their places.

local function packed_outputs(id)
  return new_outputs[id] or call("HGET", key("outputs"), id)
end

-- The outputs as committed, and the files that were written though the spec does not declare them.
local function committed_outputs(record)
  local packed = packed_outputs(record.id)
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

-- Keep the outputs as a commit tells of them, and return them as `Copy`s; those that an earlier
-- commit told of are forgotten.
local function keep_outputs(record, op, declared)
  clear_copies(record)
  record.is_spread = false
  local written, absent = {}, {}
  for _, output in ipairs(op.outputs) do
    written[output[1]] = output
  end
  for _, file in ipairs(op.absent) do
    absent[file] = true
  end
  local copies, undeclared, is_declared = {}, {}, {}
  for i, output in ipairs(declared) do
    local file = output[1]
    local as_written = written[file] or { file, -1, "" }
    is_declared[file] = true
    copies[i] = { file, absent[file] and NOWHERE or op.node, as_written[2], as_written[3] }
  end
  for _, output in ipairs(op.outputs) do
    if not is_declared[output[1]] then
      undeclared[#undeclared + 1] = { output[1], NOWHERE, output[2], output[3] }
    end
  end
  new_outputs[record.id] = pack(copies, undeclared)
  return copies
end

-- --- attempts ------------------------------------------------------------------------------------

local function hold(record, node)
  if not is_listed(record.holders, node) then
    record.holders[#record.holders + 1] = node
  end
end

local function void(record, node, before)
  local known = record.void_before[node]
  if known == nil or is_before(known, before) then
    record.void_before[node] = before
  end
end

-- End the attempts of this and earlier incarnations of a node; none may act any more.
local function fence(record, node, incarnation)
  void(record, node, { incarnation + 1, 0 })
  for name, attempt in pairs(record.attempts) do
    if attempt.node == node and attempt.incarnation <= incarnation then
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
  local first = record.void_before[node]
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
    if attempt.node == node then
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
    if not furthest or PROGRESS[attempt.state] > PROGRESS[furthest] then
      furthest = attempt.state
    end
  end
  move(record, furthest or (record.waiting_for > 0 and "waiting" or "ready"))
end
