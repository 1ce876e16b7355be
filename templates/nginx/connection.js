/* The fields of a head that go on where Connection names some that do not: lines to stand behind the one of Host. */

/* What concerns this connection alone, or is framed anew; `$fields_made` has those that nginx writes itself. */
const OWN = ',connection,content-length,expect,host,keep-alive,proxy-connection,te,trailer,transfer-encoding,upgrade,';
const TOKEN = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
const BREAK = /[\r\n\0]/;

function named(head) {
    const found = {};
    for (let at = 0; at < head.length; at++) {
        if (head[at][0].toLowerCase() === 'connection') {
            head[at][1].split(',').forEach(token => { found[':' + token.trim().toLowerCase()] = true; });
        }
    }
    return found;
}

/* The bytes of a value that is no UTF-8, all lines of that name together: strings hold a mark in their place. */
function bytes(r, head, name) {
    const variable = 'http_' + name.replace(/-/g, '_');
    for (let at = 0; at < head.length; at++) {
        const other = head[at][0].toLowerCase();
        if (other !== name && other.replace(/-/g, '_') === name.replace(/-/g, '_')) {
            throw new Error(`${name} and ${other} are one variable`);
        }
    }
    return r.rawVariables[variable];
}

/* Never empty: where this throws, the variable is, and the request is refused. */
function left(r) {
    const head = r.rawHeadersIn;
    const gone = named(head);
    const made = r.variables.fields_made;
    const written = {};
    const parts = [];
    let odd = false;
    for (let at = 0; at < head.length; at++) {
        const name = head[at][0].toLowerCase();
        const value = head[at][1];
        if (!TOKEN.test(name) || BREAK.test(value)) {
            throw new Error('a field that cannot be written');
        }
        const key = ',' + name + ',';
        if (OWN.indexOf(key) >= 0 || made.indexOf(key) >= 0 || gone[':' + name] || written[':' + name]) {
            continue;
        }
        parts.push('\r\n' + head[at][0] + ': ');
        if (value.indexOf('\ufffd') < 0) {
            parts.push(value);
        } else {
            odd = written[':' + name] = true;
            parts.push(bytes(r, head, name));
        }
    }
    if (odd) {
        return Buffer.concat(parts.map(part => Buffer.from(part)));
    }
    return parts.length ? parts.join('') : ' ';
}

export default { left };
