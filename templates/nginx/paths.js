/* Normalises a target: decodes unreserved characters, merges slashes, resolves dot segments, in that order. */

const UNRESERVED = /%(?:2[DdEe]|3[0-9]|[46][1-9A-Fa-f]|5[0-9AaFf]|7[0-9AaEe])/g;

function normal(r) {
    const sent = r.variables.request_uri;
    const mark = sent.indexOf('?');
    const path = mark < 0 ? sent : sent.slice(0, mark);
    const segments = path.replace(UNRESERVED, found => decodeURIComponent(found)).split(/\/+/);
    const last = segments.length - 1;
    const kept = [''];
    for (let at = 1; at <= last; at++) {
        const segment = segments[at];
        if (segment === '..') {
            kept.length = Math.max(1, kept.length - 1);  // nginx refuses paths that lead above the root
        } else if (segment !== '.') {
            kept.push(segment);
            continue;
        }
        if (at === last) {
            kept.push('');
        }
    }
    return kept.join('/') + (mark < 0 ? '' : sent.slice(mark));
}

export default { normal };
