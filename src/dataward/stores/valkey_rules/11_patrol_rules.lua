-- A shard's rules for patrols (stores/patrol_rules.py): how nodes are found dead and fenced, and
-- what else got stuck. Leases, full outboxes and attempts are each kept in the order in which they
-- come due, so nobody scans.

do
local PATROL_HOLD_SECONDS = 5.0 -- how long what one patrol was given is given to no other
local SUSPECTS_MAX = 16 -- old attempts in the answer to one patrol

local function is_recount_due()
  if shard.epoch ~= shard.recounted_epoch then
    return shard.epoch > shard.recounted_epoch
  end
  return shard.restored > shard.recounted_restored
end

-- ``orphans`` are packed.
local function findings(index, orphans, undelivered, suspects, is_due)
  return array_start(8) .. pack("Findings", index) .. packed_array(orphans)
    .. pack(undelivered, suspects, shard.epoch, is_due, shard.restored)
end

-- --- dead nodes ----------------------------------------------------------------------------------

local function orphans_of(node, stays)
  return array_start(4) .. pack(node.id, node.incarnation) .. entries_and_tickets(stays)
end

-- The tasks that nodes hold, or have queued, whose leases have run out: these are dead now. A node
-- with neither is left as it is.
local function find_orphans(op, now)
  local found, room, leases = {}, op.limit, keys.leases
  while room > 0 do
    local first = call("ZRANGE", leases, 0, 0, "WITHSCORES")
    if not first[1] or tonumber(first[2]) >= now then
      break
    end
    call("ZREM", leases, first[1])
    local node = find_node(first[1])
    node.listed_until = INFINITY
    local is_alive = math.max(node.lease_until, node.patrolled_until) >= now
    local has_tasks = node.held > 0 or node.queued > 0
    if not is_alive and has_tasks then
      node.patrolled_until = now + PATROL_HOLD_SECONDS
      node.seized = true
      local stays = first_stays(node, room)
      room = room - #stays
      found[#found + 1] = orphans_of(node, stays)
    end
    if is_alive or has_tasks then
      list_lease(node)
    end
  end
  return found
end

function rules.Seize(op, now)
  local node = node_of_id(op.node)
  if is_current(node, op.incarnation) and node.lease_until < now then
    node.seized = true
  end
  return membership(node, now, op.incarnation)
end

-- Void every attempt of this incarnation of a node, and of earlier ones. What they still ask for,
-- to commit above all, is refused as fenced.
function rules.TakeOver(op, now)
  local record = find_task(op.task)
  if not record then
    return unknown(op.task)
  end
  fence(record, op.node, op.incarnation)
  if not has_attempt_of(record, op.node) then
    local others = {}
    for _, node in ipairs(holders_of(record)) do
      others[#others + 1] = node ~= op.node and packed_string(node) or nil
    end
    record.holders = concat(others)
  end
  settle(record, now)
  see_it_placed(record, now)
  return standing(record, false, true)
end

-- --- what else got stuck -------------------------------------------------------------------------

-- The tasks whose outboxes have been full for too long.
local function find_undelivered(op, now)
  local found = {}
  while #found < op.limit do
    local record = give_next(now, op.stale_seconds, PATROL_HOLD_SECONDS)
    if not record then
      break
    end
    found[#found + 1] = {
      record.id,
      record.generation,
      record.state,
      FINAL[record.state] and 0 or record.placement or 0,
      unpack_all(children_of(record)),
      known_copies(record),
      record.state == "complete" and record.winner or NOBODY,
    }
  end
  return found
end

-- The attempts not given to a patrol for longest. Each then goes to the list's end.
local function find_suspects(op, now)
  local found = {}
  while #found < SUSPECTS_MAX do
    local name = first_member(keys.begun)
    if not name then
      break
    end
    local task, since = unpack_all(find_field(keys.begun_of, name))
    if since + op.suspect_seconds > now then
      break
    end
    forget_begun(name)
    local record = find_task(task)
    local attempt = record and find_attempt(record, name)
    if attempt then
      note_begun(name, task, now)
      found[#found + 1] = { task, name, attempt[1], attempt[2] }
    end
  end
  return found
end

function rules.Patrol(op, now)
  local orphans = find_orphans(op, now)
  local undelivered = find_undelivered(op, now)
  local is_due = is_recount_due() and now >= shard.recount_held_until
  if is_due then
    shard.recount_held_until = now + PATROL_HOLD_SECONDS
  end
  return findings(op.shard, orphans, undelivered, find_suspects(op, now), is_due)
end

function rules.Recounted(op)
  local is_later = op.epoch > shard.recounted_epoch
  if is_later or (op.epoch == shard.recounted_epoch and op.restored > shard.recounted_restored) then
    shard.recounted_epoch, shard.recounted_restored = op.epoch, op.restored
  end
  return findings(op.shard, {}, {}, {}, is_recount_due())
end

function rules.Tally(op)
  return answer("Tallied", op.shard, shard.counts, shard.epoch)
end

end
