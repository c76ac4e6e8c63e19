-- A shard's full outboxes (stores/outboxes.py): the tasks about which some node still has to say
-- something. {tag}full and {tag}given have them in the order they came in; the task's record says in
-- which of the two it is (``is_given``) and since or until when (``outbox_at``).

local function is_in_outbox(record)
  return record.outbox_at ~= nil
end

-- Nothing is left to say about the task; maybe nothing was.
local function empty_outbox(record)
  if record.outbox_at then
    later("ZREM", record.is_given and keys.given or keys.full, record.id)
    record.is_given, record.outbox_at = nil, nil
  end
end

local function fill_outbox(record, now)
  empty_outbox(record)
  later("ZADD", keys.full, next_place(), record.id)
  record.outbox_at = now
end

local function give(record, until_when)
  empty_outbox(record)
  later("ZADD", keys.given, next_place(), record.id)
  record.is_given, record.outbox_at = true, until_when
end

local function oldest_in(outbox)
  local first = first_member(keys[outbox])
  return first and find_task(first)
end

-- The task whose outbox is longest due, given to a patrol; nil if none is due. Equal times go to
-- the lowest id.
local function give_next(now, stale_seconds, hold_seconds)
  local due, task = INFINITY, nil
  for outbox, seconds in pairs({ given = 0, full = stale_seconds }) do
    local record = oldest_in(outbox)
    if record then
      local at = record.outbox_at + seconds
      if at < due or (at == due and (not task or record.id < task.id)) then
        due, task = at, record
      end
    end
  end
  if due > now or not task then
    return nil
  end
  give(task, now + hold_seconds)
  return task
end
