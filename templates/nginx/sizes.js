/* The size of a request's headers: name, value and the four bytes around them in HTTP/1.1. */

function headers(r) {
    const one = line => line[0].length + Buffer.byteLength(line[1]) + 4;
    return String(r.rawHeadersIn.reduce((size, line) => size + one(line), 0));
}

export default { headers };
