-- The record a shard keeps of one task (stores/task_record.py), and how it is read and written.
--
-- Kept apart, since it may be long and few operations need it, is the spec. What was heard of parents
-- and where the outputs are is part of the record while it is short. The history of states is not
-- kept: no answer tells of it. ``about`` is the part of a `Standing` that never changes, packed.
-- ``attempts`` is a table only once it is asked for; ``holders`` stays packed. Most tasks have nothing
-- in the fields from ``is_given`` on, and then these are left out.

local unpack_attempts, unpack_task, read_tasks, find_task, write_tasks, new_task
local read_specs, packed_spec, parts_of_spec, children_of, parents_of, retries_of, preferred_of
do

local STATES = {
  "waiting", "ready", "stage-in", "running", "stage-out", "complete", "failed", "removed",
}
local STATE_NUMBERS = {
  waiting = 1, ready = 2, ["stage-in"] = 3, running = 4, ["stage-out"] = 5, complete = 6,
  failed = 7, removed = 8,
}
local FOLDED, FOLDED_AND_SPREAD = 0, 9 -- in place of the number of a state

local function pack_attempts(attempts)
  local packed = ""
  for name, attempt in pairs(attempts) do
    packed = packed .. packed_string(name) .. packed_string(attempt[1]) .. packed_number(attempt[2])
      .. packed_number(STATE_NUMBERS[attempt[3]])
  end
  return packed
end

function unpack_attempts(packed)
  local attempts, found = {}, { unpack_all(packed) }
  for i = 1, #found, 4 do
    attempts[found[i]] = { found[i + 1], found[i + 2], STATES[found[i + 3]] }
  end
  return attempts
end

local function pack_task(record)
  local generation, waiting_for = record.generation, record.waiting_for
  local about, places, holders, heard = record.about, record.places, record.holders, record.heard
  local inputs, sources, outbox_at = record.inputs, record.sources, record.outbox_at
  local attempts = record.attempts and pack_attempts(record.attempts) or record.packed_attempts
  local usual = numbers[STATE_NUMBERS[record.state]]
    .. (numbers[generation] or pack(generation)) .. (numbers[waiting_for] or pack(waiting_for))
    .. packed_number(record.backups_max)
    .. (starts[#about] or long_start(#about)) .. about
    .. (starts[#places] or long_start(#places)) .. places
    .. (starts[#holders] or long_start(#holders)) .. holders
    .. packed_number(record.heard_count) .. packed_number(record.heard_generation)
    .. (starts[#heard] or long_start(#heard)) .. heard
    .. (starts[#sources] or long_start(#sources)) .. sources
    .. (starts[#inputs] or long_start(#inputs)) .. inputs
    .. (attempts and packed_string(attempts) or NIL)
    .. (record.winner and packed_string(record.winner) or NIL)
    .. (record.outputs and packed_string(record.outputs) or NIL)
    .. (outbox_at and pack(outbox_at) or NIL)
  local is_odd = record.is_given or record.placement or record.backups or record.void_before
    or record.failures or record.required or record.failed_parent or record.removed_parent
    or record.is_spread or record.is_heard_apart
  if not is_odd then
    return usual
  end
  return usual .. pack(
    true, record.is_given, record.placement, record.backups, record.void_before, record.failures,
    record.required, record.failed_parent, record.removed_parent, record.is_spread,
    record.is_heard_apart
  )
end

-- --- tasks that are done with --------------------------------------------------------------------
-- A task that is complete, and about which nobody has anything left to say, is kept for the case that
-- its outputs are lost. It then takes less memory than when it waited: its record has the spec, and
-- leaves out what the spec and the winner's name tell as well.

local SPEC_BYTES_MAX = 1024

local function parents_count_of(record)
  local _, _, _, _, count = unpack_all(record.places)
  return count
end

local function may_be_folded(record)
  return record.state == "complete" and not record.outbox_at and record.outputs
    and record.heard_count == parents_count_of(record)
    and (record.heard_generation > 0 or record.heard_count == 0)
    and record.holders == packed_string(node_of(record.winner))
    and not (
      record.placement or record.backups or record.void_before or record.failures
      or record.required or record.failed_parent or record.removed_parent or record.is_heard_apart
    )
end

-- Where inputs were: for each where the spec has its name, and its node unless that is the winner's.
-- Nil if the spec does not name them all.
local function fold_sources(record, spec)
  if record.sources == "" then
    return ""
  end
  local _, first = unpack_all(record.places)
  local found, folded, here = { unpack_all(record.sources) }, "", node_of(record.winner)
  for i = 1, #found, 2 do
    local place, node = find(spec, packed_string(found[i]), first + 1, true), found[i + 1]
    if not place then
      return nil
    end
    folded = folded .. packed_number(place - 1) .. (node == here and NIL or packed_string(node))
  end
  return folded
end

local function unfold_sources(folded, spec, here)
  local found, sources = { unpack_all(folded) }, {}
  for i = 1, select("#", unpack_all(folded)), 2 do
    local _, file = unpack_some(spec, 1, found[i])
    sources[#sources + 1] = packed_string(file) .. packed_string(found[i + 1] or here)
  end
  return concat(sources)
end

-- Nil if the record would not be whole again.
local function fold(record, spec)
  local sources = #spec <= SPEC_BYTES_MAX and fold_sources(record, spec)
  if not sources then
    return nil
  end
  return numbers[record.is_spread and FOLDED_AND_SPREAD or FOLDED]
    .. packed_number(record.generation) .. packed_string(record.winner)
    .. packed_number(record.heard_generation) .. packed_string(sources)
    .. packed_string(record.outputs) .. (starts[#spec] or long_start(#spec)) .. spec
end

-- As `PackedSubmit.about` was.
local function about_of(fields)
  local seconds, spread = fields[7], fields[17]
  if seconds <= 0 then
    seconds, spread = GUESS.seconds, GUESS.spread
  end
  return pack(fields[11], fields[12], seconds, spread, fields[2])
end

-- As `PackedSubmit.places` was.
local function places_in(spec, parents_count)
  local children = unpack_some(spec, 3, PARENTS_AFTER)
  local inputs = unpack_some(spec, 1, children)
  local outputs = unpack_some(spec, 1, inputs)
  local past = unpack_some(spec, 1, outputs)
  return pack(children, inputs, outputs, past, parents_count)
end

local function unfold(id, packed)
  local kind, generation, winner, heard_generation, sources, outputs, spec = unpack_all(packed)
  local fields, here, heard = unpack_all(spec), node_of(winner), {}
  for i, parent in ipairs(fields[3]) do
    heard[i] = packed_string(parent) .. packed_number(heard_generation)
  end
  specs[id] = spec
  return {
    id = id, state = "complete", generation = generation, waiting_for = 0,
    backups_max = fields[13], about = about_of(fields), places = places_in(spec, #heard),
    holders = packed_string(here), heard_count = #heard, heard_generation = heard_generation,
    heard = concat(heard), inputs = "", sources = unfold_sources(sources, spec, here),
    winner = winner, outputs = outputs, is_spread = kind == FOLDED_AND_SPREAD or nil,
    was_folded = true,
  }
end

function unpack_task(id, packed)
  local kind = string.byte(packed)
  if kind == FOLDED or kind == FOLDED_AND_SPREAD then
    return unfold(id, packed)
  end
  local state, generation, waiting_for, backups_max, about, places, holders, heard_count,
    heard_generation, heard, sources, inputs, attempts, winner, outputs, outbox_at, is_odd,
    is_given, placement, backups, void_before, failures, required, failed_parent, removed_parent,
    is_spread, is_heard_apart = unpack_all(packed)
  local record = {
    id = id, state = STATES[state], generation = generation, waiting_for = waiting_for,
    backups_max = backups_max, about = about, places = places, holders = holders,
    heard_count = heard_count, heard_generation = heard_generation, heard = heard,
    sources = sources, inputs = inputs, winner = winner, outputs = outputs,
    outbox_at = outbox_at,
  }
  if attempts then
    record.packed_attempts = attempts
  end
  if is_odd then
    record.is_given, record.placement, record.backups = is_given, placement, backups
    record.void_before, record.failures, record.required = void_before, failures, required
    record.failed_parent, record.removed_parent = failed_parent, removed_parent
    record.is_spread, record.is_heard_apart = is_spread, is_heard_apart
  end
  return record
end

-- --- reading and writing records -----------------------------------------------------------------

function read_tasks(ids)
  local unread = {}
  for i = 1, #ids do
    local id = ids[i]
    if tasks[id] == nil then
      tasks[id] = false
      unread[#unread + 1] = id
    end
  end
  local found = read_fields(keys.tasks, unread)
  for i = 1, #unread do
    local id, packed = unread[i], found[i]
    tasks[id], tasks_as_read[id] = packed and unpack_task(id, packed), packed
  end
end

function find_task(id)
  if tasks[id] == nil then
    read_tasks({ id })
  end
  return tasks[id]
end

function read_specs(ids)
  local unread = {}
  for i = 1, #ids do
    if not specs[ids[i]] then
      unread[#unread + 1] = ids[i]
    end
  end
  local found = read_fields(keys.specs, unread)
  for i = 1, #unread do
    specs[unread[i]] = found[i]
  end
end

function packed_spec(id)
  if not specs[id] then
    read_specs({ id })
  end
  return specs[id]
end

-- The record as it is to be written, and the spec with it if the task is done with.
local function pack_with_spec(record, is_foldable)
  local folded = is_foldable and fold(record, packed_spec(record.id))
  if folded then
    if not record.was_folded then
      later("HDEL", keys.specs, record.id)
    end
    return folded
  end
  if record.was_folded then
    later("HSET", keys.specs, record.id, packed_spec(record.id))
  end
  return pack_task(record)
end

function write_tasks()
  local foldable, foldable_ids = {}, {}
  for id, record in pairs(tasks) do
    if record and may_be_folded(record) then
      foldable[id] = true
      foldable_ids[#foldable_ids + 1] = id
    end
  end
  read_specs(foldable_ids)
  local written, dropped = {}, {}
  for id, record in pairs(tasks) do
    local packed = record and pack_with_spec(record, foldable[id])
    if packed and packed ~= tasks_as_read[id] then
      written[#written + 1] = id
      written[#written + 1] = packed
    elseif not packed and tasks_as_read[id] then
      dropped[#dropped + 1] = id
    end
  end
  call_with("HSET", keys.tasks, written)
  call_with("HDEL", keys.tasks, dropped)
end

function preferred_of(record)
  return (unpack_all(record.about))
end

-- Three fields of the spec, each packed as the spec has it. ``places`` says where they begin, and how
-- many parents there are.
function parts_of_spec(record)
  local packed = packed_spec(record.id)
  local children, inputs, outputs, past = unpack_all(record.places)
  return sub(packed, children + 1, inputs), sub(packed, inputs + 1, outputs),
    sub(packed, outputs + 1, past)
end

function children_of(record)
  return (parts_of_spec(record))
end

function parents_of(record)
  local _, _, _, parents = unpack_some(packed_spec(record.id), 3, PARENTS_AFTER)
  return parents
end

function retries_of(record)
  return unpack_all(packed_spec(record.id))[10]
end

function new_task(op)
  return {
    id = op.task, state = "waiting", generation = 0, waiting_for = op.parents,
    backups_max = op.backups_max, about = op.about, places = op.places, holders = "",
    heard_count = 0, heard_generation = 0, heard = "", sources = "", inputs = "",
  }
end

end
