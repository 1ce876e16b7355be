/* Queues of requests that wait for an endpoint below its max_per_endpoint, which nginx itself counts.

A request that finds none adds a ticket to shared memory; a request that releases a place calls the first ticket. A
ticket expires unless its request renews it, so that none remains when a worker dies; a call without a response is
passed on. nginx follows ten internal redirects of a request, so after CALLS vain calls it waits for its timeout. */

const POLL = 5;
const LEASE = 200;
const CALLS = 5;
const MOST = 100000;

/* `$queue_line` is zone, size and milliseconds. */
function line_of(r) {
    const told = r.variables.queue_line.split(' ');
    return { tickets: ngx.shared[told[0]], size: Number(told[1]), time: Number(told[2]) };
}

function pause(milliseconds) {
    return new Promise(done => setTimeout(done, milliseconds));
}

/* `joins`: a new request does not overtake waiting ones. */
function joins(r) {
    return line_of(r).tickets.size() > 0 ? '1' : '';
}

/* A ticket is 0, or the time when it was called. */
function uncalled(tickets) {
    return tickets.items(MOST).filter(found => found[1] === 0).map(found => found[0]);
}

function call_next(tickets, now) {
    const waiting = uncalled(tickets).sort();
    if (waiting.length) {
        tickets.set(waiting[0], now, LEASE);
    }
}

/* `released`: a request that held a place has an address in $upstream_addr. */
function released(r) {
    const line = line_of(r);
    if (line.tickets.size() > 0 && /:[0-9]+$/.test(r.variables.upstream_addr || '')) {
        call_next(line.tickets, Date.now());
    }
    return '';
}

function pass_on_unanswered(tickets, now) {
    tickets.items(MOST).forEach(found => {
        if (found[1] > 0 && now - found[1] > 10 * POLL && tickets.delete(found[0])) {
            call_next(tickets, now);
        }
    });
}

async function wait(r) {
    const line = line_of(r);
    const tickets = line.tickets;
    const start = Date.now();
    let state = r.variables.queue_state ? JSON.parse(r.variables.queue_state) : null;
    if (state === null) {
        if (tickets.size() >= line.size && uncalled(tickets).length >= line.size) {
            r.return(420);
            return;
        }
        state = { calls: 0, end: start + line.time, ticket: `${start}:${r.variables.request_id}` };
    } else {
        state.calls++;
    }
    r.variables.queue_state = JSON.stringify(state);
    if (start >= state.end) {
        r.return(420);
        return;
    }
    let renewed = start;
    tickets.set(state.ticket, 0, LEASE);
    for (let now = start; now < state.end; now = Date.now()) {
        await pause(POLL);
        if (tickets.get(state.ticket) > 0 && state.calls < CALLS) {
            break;
        }
        if (now - renewed > LEASE / 4) {
            pass_on_unanswered(tickets, now);
            tickets.set(state.ticket, 0, LEASE);
            renewed = now;
        }
    }
    tickets.delete(state.ticket);
}

export default { joins, released, wait };
