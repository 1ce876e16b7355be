// The clients of Node: fetch, node:http2 and the package ws. Prints what they got for each part of their work, as JSON.
//
//   node client.mjs URL-PREFIX WEBSOCKET-PREFIX KIND     KIND: fetch, http2, or the folder of the package ws
import { createHash } from "node:crypto";
import { createRequire } from "node:module";

const [prefix, sockets, kind] = process.argv.slice(2);
const hash = (bytes) => createHash("sha256").update(bytes).digest("hex");

function content(size) {
  const lines = [];
  for (let number = 0; number * 10 < size; number++) lines.push(String(number).padStart(9, "0") + "\n");
  return Buffer.from(lines.join("").slice(0, size));
}

async function parts(work) {
  const done = {};
  for (const [name, part] of Object.entries(work)) {
    try {
      done[name] = await part();
    } catch (error) {
      done[name] = { error: `${error} ${error.cause ?? ""}` };
    }
  }
  return done;
}

function account(bytes) {
  return bytes.subarray(0, 2).toString() === '{"' ? JSON.parse(bytes) : hash(bytes);
}

async function ask(path, options = {}) {
  const got = await fetch(prefix + path, { signal: AbortSignal.timeout(20_000), ...options });
  const bytes = Buffer.from(await got.arrayBuffer());
  return { status: got.status, answer: [...got.headers], body: account(bytes) };
}

async function firstEvents() {
  const got = await fetch(prefix + "/sse/events/10");
  const times = [];
  for await (const chunk of got.body) times.push(Buffer.from(chunk).toString());
  return times.join("");
}

async function leave() {
  const controller = new AbortController();
  const got = await fetch(prefix + "/http/forever", { signal: controller.signal });
  await got.body.getReader().read();
  controller.abort();
  return ask("/http/echo");
}

const large = content(2_000_000);
const withFetch = {
  get: () => ask("/http/echo/a%20b/~me?q=a%20b&x=%2F&e=", { headers: { "X-A": "1" } }),
  "raw query": () => ask("/http/echo?q=a|b{c}^`[d]"),
  post: () => ask("/http/echo", { method: "POST", body: large }),
  stream: () => ask("/http/echo", { method: "PUT", body: new Blob([large]).stream(), duplex: "half" }),
  delete: () => ask("/http/echo", { method: "DELETE" }),
  head: () => ask("/http/bytes/100000", { method: "HEAD" }),
  compressed: () => ask("/http/bytes/100000"),
  redirect: () => ask("/http/redirect", { method: "POST", body: "again" }),
  pieces: () => ask("/http/chunks/1000"),
  "set cookies": () => ask("/http/cookies"),
  refused: () => ask("/early/refuse", { method: "POST", body: Buffer.alloc(1000) }),
  "after it": () => ask("/early/echo"),
  events: firstEvents,
  "client leaves": leave,
};

async function overHttp2(path, fields, body) {
  session.setTimeout(20_000, () => session.destroy(new Error("late")));
  const stream = session.request({ ":path": path, ...fields }, { endStream: body === undefined });
  let answer;
  stream.on("response", (got) => (answer = got));
  if (body !== undefined) stream.end(body);
  const chunks = [];
  for await (const chunk of stream) chunks.push(chunk);
  const own = Object.entries(answer).filter(([name]) => !name.startsWith(":"));
  return { status: answer[":status"], answer: own, body: account(Buffer.concat(chunks)) };
}

let session;
const withHttp2 = {
  get: () => overHttp2("/http/echo?q=1", { "x-a": "1" }),
  post: () => overHttp2("/http/echo", { ":method": "POST" }, large),
  "100 at once": async () => {
    const all = await Promise.all([...Array(100).keys()].map((number) => overHttp2(`/http/echo/${number}`, {})));
    return all.every((each, number) => each.status === 200 && each.body.target === `/http/echo/${number}`);
  },
};

function talk(WebSocket) {
  return new Promise((resolve, reject) => {
    const heard = [];
    const socket = new WebSocket(sockets + "/ws/echo", { handshakeTimeout: 5000 });
    setTimeout(() => reject(new Error(`late, after ${heard.length} messages`)), 15_000).unref();
    socket.on("error", reject);
    socket.on("open", () => [`hello \u2603`, large, ""].forEach((each) => socket.send(each)));
    socket.on("message", (data, binary) => {
      heard.push([binary, hash(data)]);
      if (heard.length === 3) socket.ping();
    });
    socket.on("pong", () => socket.close(4000, "enough"));
    socket.on("close", (code) => resolve({ heard, code }));
  });
}

let done;
if (kind === "fetch") {
  done = await parts(withFetch);
} else if (kind === "http2") {
  session = (await import("node:http2")).connect(prefix);
  done = await parts(withHttp2);
  session.close();
} else {
  const WebSocket = createRequire(kind + "/")("ws");
  done = await parts({ messages: () => talk(WebSocket) });
}
console.log(JSON.stringify(done));
process.exit(0);
