/* Connection options. Requests: the fields that Connection does not name, as lines to append to Host.
   Responses: drops the fields that Connection names. */

/* Hop-by-hop fields and framing; `$fields_made` lists the fields that nginx sets. */
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

/* The combined value of a field as bytes, for values that are no UTF-8, which strings hold as U+FFFD. */
function bytes(r, head, name) {
    const variable = name.replace(/-/g, '_');
    for (let at = 0; at < head.length; at++) {
        const other = head[at][0].toLowerCase();
        if (other !== name && other.replace(/-/g, '_') === variable) {
            throw new Error(`${name} and ${other} are one variable`);
        }
    }
    return r.rawVariables['http_' + variable];
}

/* Never empty: the variable is empty when this throws, and nginx then refuses the request. */
function left(r) {
    const made = r.variables.fields_made;
    const head = r.rawHeadersIn;
    const gone = named(head);
    const fields = [];
    const odd = {};
    for (let at = 0; at < head.length; at++) {
        const name = head[at][0].toLowerCase();
        const value = head[at][1];
        if (!TOKEN.test(name) || BREAK.test(value)) {
            throw new Error('a field that cannot be written');
        }
        const key = ',' + name + ',';
        if (OWN.indexOf(key) < 0 && made.indexOf(key) < 0 && !gone[':' + name]) {
            fields.push(head[at]);
            if (value.indexOf('\ufffd') >= 0) {
                odd[':' + name] = true;
            }
        }
    }
    if (fields.length === 0) {
        return ' ';
    }
    if (Object.keys(odd).length === 0) {
        return fields.map(field => '\r\n' + field[0] + ': ' + field[1]).join('');
    }
    const parts = [];
    const written = {};
    fields.forEach(field => {
        const name = field[0].toLowerCase();
        const key = ':' + name;
        if (!written[key]) {
            parts.push(Buffer.from('\r\n' + field[0] + ': '));
            parts.push(odd[key] ? bytes(r, head, name) : Buffer.from(field[1]));
            written[key] = odd[key];
        }
    });
    return Buffer.concat(parts);
}

/* Drops hop-by-hop fields, and those that the endpoint's Connection names. The variable is always empty: an add_header
   evaluates it while nginx writes the response head, and adds nothing. */
const FRAMING = ',connection,content-length,host,transfer-encoding,';

function ended(r) {
    const tunnel = r.status === 101;
    const names = (r.variables.upstream_http_connection || '').toLowerCase().split(',').map(name => name.trim());
    names.concat('proxy-connection', 'te', 'upgrade').forEach(name => {
        if (TOKEN.test(name) && FRAMING.indexOf(',' + name + ',') < 0 && !(tunnel && name === 'upgrade')) {
            delete r.headersOut[name];
        }
    });
    return '';
}

export default { left, ended };
