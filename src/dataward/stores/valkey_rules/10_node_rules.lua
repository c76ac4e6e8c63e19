-- A shard's rules about nodes (stores/node_rules.py): their leases, their queues, and the tasks they
-- hold.

-- A renewal does not move the node's entry; a patrol that comes upon the entry does.
local function list_lease(node)
  local due = math.max(node.lease_until, node.patrolled_until)
  if due < node.listed_until then
    node.listed_until = due
    call("ZADD", keys.leases, due, node.id)
  end
end

function rules.Join(op, now)
  local node = node_of_id(op.node)
  if op.incarnation >= node.incarnation then
    rejoin(node, op.incarnation, op.lease_seconds, now)
    list_lease(node)
  end
  return membership(node, now, op.incarnation)
end

function rules.Renew(op, now)
  local node = node_of_id(op.node)
  if is_current(node, op.incarnation) then
    node.lease_until = now + node.lease_seconds
    node.load_seconds = op.load_seconds
    list_lease(node)
  end
  return membership(node, now, op.incarnation)
end

function rules.Leave(op, now)
  local node = node_of_id(op.node)
  if is_current(node, op.incarnation) then
    node.seized = true
    node.lease_until = -INFINITY
    list_lease(node)
  end
  return membership(node, now, op.incarnation)
end

function rules.Enqueue(op, now)
  local node = node_of_id(op.node)
  for _, stay in ipairs(new_stays(op.entries)) do
    enqueue(node, stay)
  end
  list_lease(node)
  return membership(node, now)
end

-- Two arrays, packed.
local function entries_and_tickets(stays)
  local entries, tickets = {}, {}
  for i, stay in ipairs(stays) do
    entries[i], tickets[i] = stay.entry, packed_number(stay.ticket)
  end
  return packed_array(entries) .. packed_array(tickets)
end

local function claimed(node, is_still_current, stays)
  return array_start(6) .. packed_string("Claimed") .. packed_string(node.id)
    .. packed_flag(is_still_current) .. entries_and_tickets(stays) .. packed_number(node.queued)
end

function rules.Claim(op)
  local node = node_of_id(op.node)
  if not is_current(node, op.incarnation) then
    return claimed(node, false, {})
  end
  node.load_seconds = op.load_seconds
  local incarnation, request = unpack(node.last_request)
  if incarnation == op.incarnation and request == op.request then
    return call("GET", key("claimed", node.id))
  end
  if incarnation == op.incarnation and op.request < request then
    -- A late copy of a claim answered before: the node would not hear which tasks it holds.
    return claimed(node, true, {})
  end
  local stays = claim(node, op.limit)
  node.last_request = { op.incarnation, op.request }
  local last_answer = claimed(node, true, stays)
  call("SET", key("claimed", node.id), last_answer)
  return last_answer
end

function rules.LetGo(op, now)
  local node = node_of_id(op.node)
  if op.incarnation == node.incarnation then
    for i = 1, #op.stays, 2 do
      let_go(node, op.stays[i], op.stays[i + 1])
    end
  end
  return membership(node, now, op.incarnation)
end

function rules.Restate(op)
  local node = node_of_id(op.node)
  if not is_current(node, op.incarnation) then
    return claimed(node, false, {})
  end
  local stays, by_task = {}, {}
  for _, stay in ipairs(new_stays(op.entries)) do
    by_task[stay.task] = by_task[stay.task] or #stays + 1
    stays[by_task[stay.task]] = stay
  end
  hold_only(node, stays)
  list_lease(node)
  return claimed(node, true, held_stays(node, -1))
end

function rules.ReportLoad(op, now)
  local node = node_of_id(op.node)
  node.load_seconds = op.load_seconds
  return membership(node, now)
end

function rules.Probe(op, now)
  local node = find_node(op.node)
  if not node then
    return answer("Membership", op.node, false, false, -1, 0, 0, shard.epoch)
  end
  return membership(node, now)
end
