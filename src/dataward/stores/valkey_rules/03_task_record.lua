-- The record a shard keeps of one task (stores/task_record.py), and how it is read and written.
--
-- Kept apart, since it may be long and few operations need it, is the spec. What was heard of parents
-- and where the outputs are is part of the record while it is short. The history of states is not
-- kept: no answer tells of it. ``about`` is the part of a `Standing` that never changes, packed.
-- ``attempts`` is a table only once it is asked for; ``holders`` stays packed. Most tasks have nothing
-- in the fields from ``placement`` on, and then these are left out.

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
  local attempts = record.attempts and pack_attempts(record.attempts) or record.packed_attempts
  local heard, inputs, outputs = record.heard, record.inputs, record.outputs
  local usual = packed_number(STATE_NUMBERS[record.state]) .. packed_number(record.generation)
    .. packed_number(record.waiting_for) .. packed_number(record.parents_count)
    .. packed_number(record.backups_max) .. packed_string(record.about)
    .. packed_string(record.places) .. packed_string(attempts) .. packed_string(record.holders)
    .. packed_string(record.winner) .. packed_number(record.heard_count)
    .. packed_number(record.heard_generation) .. string_start(#heard) .. heard
    .. packed_number(record.inputs_count) .. string_start(#inputs) .. inputs
    .. (outputs and string_start(#outputs) .. outputs or NIL)
    .. (record.outbox and packed_string(record.outbox) .. pack(record.outbox_at) or NIL .. NIL)
  local is_odd = record.placement > 0 or record.backups > 0 or record.void_before or record.failures
    or record.required or record.failed_parent or record.removed_parent or record.is_spread
    or record.is_heard_apart
  if not is_odd then
    return usual
  end
  return usual .. pack(
    record.placement, record.backups, record.void_before, record.failures, record.required,
    record.failed_parent, record.removed_parent, record.is_spread, record.is_heard_apart
  )
end

-- --- tasks that are done with --------------------------------------------------------------------
-- A task that is complete, and about which nobody has anything left to say, is kept for the case that
-- its outputs are lost. It then takes less memory than when it waited: its record has the spec, and
-- leaves out what the spec and the winner's name tell as well.

local SPEC_BYTES_MAX = 1024

local function may_be_folded(record)
  return record.state == "complete" and not record.outbox and record.outputs
    and record.heard_count == record.parents_count
    and (record.heard_generation > 0 or record.parents_count == 0)
    and record.holders == packed_string(node_of(record.winner))
    and not (
      record.placement > 0 or record.backups > 0 or record.void_before or record.failures
      or record.required or record.failed_parent or record.removed_parent or record.is_heard_apart
    )
end

-- Where inputs were: for each its place in the spec, and its node unless that is the winner's. Nil if
-- the spec does not have them all.
local function fold_inputs(record, spec)
  if record.inputs_count == 0 then
    return ""
  end
  local _, first, past = unpack_all(record.places)
  local places, folded, here = {}, "", node_of(record.winner)
  for i, input in ipairs(unpack_all(sub(spec, first + 1, past))) do
    places[input[1]] = packed_number(i)
  end
  for _, copy in ipairs({ unpack_all(record.inputs) }) do
    local file, node = copy[1], copy[2]
    if not places[file] then
      return nil
    end
    folded = folded .. places[file] .. (node == here and NIL or packed_string(node))
  end
  return folded
end

local function unfold_inputs(folded, inputs, here)
  local found, copies = { unpack_all(folded) }, {}
  for i = 1, select("#", unpack_all(folded)), 2 do
    copies[#copies + 1] = copy_of_unknown(inputs[found[i]][1], found[i + 1] or here)
  end
  return copies
end

-- Nil if the record would not be whole again.
local function fold(record, spec)
  local inputs = #spec <= SPEC_BYTES_MAX and fold_inputs(record, spec)
  if not inputs then
    return nil
  end
  return packed_number(record.is_spread and FOLDED_AND_SPREAD or FOLDED)
    .. packed_number(record.generation) .. packed_string(record.winner)
    .. packed_number(record.heard_generation) .. packed_string(inputs)
    .. packed_string(record.outputs) .. string_start(#spec) .. spec
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
local function places_in(spec)
  local children = unpack_some(spec, 3, PARENTS_AFTER)
  local inputs = unpack_some(spec, 1, children)
  local outputs = unpack_some(spec, 1, inputs)
  return pack(children, inputs, outputs, (unpack_some(spec, 1, outputs)))
end

local function unfold(id, packed)
  local kind, generation, winner, heard_generation, inputs, outputs, spec = unpack_all(packed)
  local fields, here, heard = unpack_all(spec), node_of(winner), {}
  for i, parent in ipairs(fields[3]) do
    heard[i] = packed_string(parent) .. packed_number(heard_generation)
  end
  local copies = unfold_inputs(inputs, fields[5], here)
  specs[id] = spec
  return {
    id = id, state = "complete", generation = generation, waiting_for = 0,
    parents_count = #heard, backups_max = fields[13], about = about_of(fields),
    places = places_in(spec), packed_attempts = "", holders = packed_string(here), winner = winner,
    heard_count = #heard, heard_generation = heard_generation, heard = concat(heard),
    inputs_count = #copies, inputs = concat(copies), outputs = outputs,
    is_spread = kind == FOLDED_AND_SPREAD or nil, placement = 0, backups = 0, was_folded = true,
  }
end

function unpack_task(id, packed)
  local kind = string.byte(packed)
  if kind == FOLDED or kind == FOLDED_AND_SPREAD then
    return unfold(id, packed)
  end
  local state, generation, waiting_for, parents_count, backups_max, about, places, attempts, holders,
    winner, heard_count, heard_generation, heard, inputs_count, inputs, outputs, outbox, outbox_at,
    placement, backups, void_before, failures, required, failed_parent, removed_parent, is_spread,
    is_heard_apart = unpack_all(packed)
  local record = {
    id = id, state = STATES[state], generation = generation, waiting_for = waiting_for,
    parents_count = parents_count, backups_max = backups_max, about = about, places = places,
    packed_attempts = attempts, holders = holders, winner = winner, heard_count = heard_count,
    heard_generation = heard_generation, heard = heard, inputs_count = inputs_count, inputs = inputs,
    outputs = outputs, outbox = outbox, outbox_at = outbox_at, placement = placement or 0,
    backups = backups or 0,
  }
  if placement then
    record.void_before, record.failures, record.required = void_before, failures, required
    record.failed_parent, record.removed_parent = failed_parent, removed_parent
    record.is_spread, record.is_heard_apart = is_spread, is_heard_apart
  end
  return record
end

-- --- reading and writing records -----------------------------------------------------------------

function read_tasks(ids)
  for i, packed in ipairs(read_fields(key("tasks"), ids)) do
    tasks[ids[i]] = packed and unpack_task(ids[i], packed)
    tasks_as_read[ids[i]] = packed
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
  for _, id in ipairs(ids) do
    if not specs[id] then
      unread[#unread + 1] = id
    end
  end
  for i, packed in ipairs(read_fields(key("specs"), unread)) do
    specs[unread[i]] = packed
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
      drop_field(key("specs"), record.id)
    end
    return folded
  end
  if record.was_folded then
    put_field(key("specs"), record.id, packed_spec(record.id))
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
  local written = {}
  for id, record in pairs(tasks) do
    local packed = record and pack_with_spec(record, foldable[id])
    if packed ~= tasks_as_read[id] then
      written[id] = packed
    end
  end
  write_hash(key("tasks"), written)
end

function preferred_of(record)
  return (unpack_all(record.about))
end

-- Three fields of the spec, each packed as the spec has it. ``places`` says where they begin.
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
    parents_count = op.parents, backups_max = op.backups_max, about = op.about, places = op.places,
    packed_attempts = "", holders = "", winner = NOBODY, heard_count = 0, heard_generation = 0,
    heard = "", inputs_count = 0, inputs = "", placement = 0, backups = 0,
  }
end

end
