/* Requests that wait for an endpoint below its max_per_endpoint, which nginx counts by itself.

Who finds none joins a line in shared memory; whoever gives a place back calls the first of it. A ticket lives for a
moment unless its holder renews it, so none is left over when a worker dies, and a call that nobody answers is passed
on. nginx follows ten hops of a request, so after some vain calls one tries again only when its time is over. */

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

/* `joins`: nobody overtakes those who wait. */
function joins(r) {
    return line_of(r).tickets.size() > 0 ? '1' : '';
}

/* A ticket is 0 until it is called, then the time of that. */
function uncalled(tickets) {
    return tickets.items(MOST).filter(found => found[1] === 0).map(found => found[0]);
}

function call_next(tickets, now) {
    const waiting = uncalled(tickets).sort();
    if (waiting.length) {
        tickets.set(waiting[0], now, LEASE);
    }
}

/* `released`: whether the request had a place is in its endpoint's address. */
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
