package lbgen

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"reflect"
	"strings"
	"time"
)

// What net/http keeps to itself is read by reflection; prove shows at the start that it is where it is looked for.

// inner is net/http's own writer below Traefik's wrappers.
func inner(w http.ResponseWriter) http.ResponseWriter {
	found := reflect.ValueOf(w)
	for depth := 0; depth < 16; depth++ {
		for found.Kind() == reflect.Interface || found.Kind() == reflect.Ptr {
			found = found.Elem()
		}
		if found.Kind() != reflect.Struct {
			break
		}
		kind := found.Type().String()
		if kind == "http.response" || kind == "http.http2responseWriter" {
			return reflect.NewAt(found.Type(), found.Addr().UnsafePointer()).Interface().(http.ResponseWriter)
		}
		at := nextOf(found)
		if at < 0 {
			break
		}
		found = found.Field(at)
	}
	panic("lbgen does not know this Traefik: no writer of net/http below its own")
}

// nextOf is the field of a wrapper with what it wraps, or -1.
func nextOf(value reflect.Value) int {
	for i := 0; i < value.NumField(); i++ {
		if value.Field(i).Kind() == reflect.Interface && strings.HasSuffix(value.Field(i).Type().String(), "ResponseWriter") {
			return i
		}
	}
	for i := 0; i < value.NumField(); i++ { // a wrapper inside a wrapper: its first struct
		kind := value.Field(i).Kind()
		if kind == reflect.Struct || kind == reflect.Ptr || kind == reflect.Interface {
			return i
		}
	}
	return -1
}

// isStream is whether a request came by HTTP/2.
func isStream(w http.ResponseWriter) bool { return reflect.TypeOf(w).Elem() != responseType }

// streamOf is what net/http holds of a request of HTTP/2; nothing once it was reset.
func streamOf(w http.ResponseWriter) reflect.Value {
	return reflect.ValueOf(w).Elem().FieldByName("rws").Elem()
}

// answerOf is what net/http holds of a request of HTTP/1.
func answerOf(w http.ResponseWriter) *answer {
	return reflect.NewAt(answerType, reflect.ValueOf(w).UnsafePointer()).Interface().(*answer)
}

// servingOf is what net/http holds of the connection of a request of HTTP/1.
func servingOf(w http.ResponseWriter) *serving {
	held := reflect.ValueOf(w).Elem().FieldByName("conn")
	return reflect.NewAt(servingType, held.UnsafePointer()).Interface().(*serving)
}

// original is the request as net/http made it, before any handler changed or copied it.
func original(w http.ResponseWriter) *http.Request {
	if !isStream(w) {
		return answerOf(w).request
	}
	return open(streamOf(w).FieldByName("req")).(*http.Request)
}

// open is the value of a field that may have no name for others.
func open(field reflect.Value) any {
	return reflect.NewAt(field.Type(), field.Addr().UnsafePointer()).Elem().Interface()
}

// rawHead is the head of an HTTP/1 request as it came, nil when it was larger than net/http's read buffer (4 KiB) or came
// with the body before it. It begins a line: within a line, a client may have written the same text into a field.
func rawHead(w http.ResponseWriter, r *http.Request) []byte {
	if r.ProtoMajor != 1 {
		return nil
	}
	from := servingOf(w).in
	head := from.buffer[:from.next]
	first := r.Method + " " + r.RequestURI + " HTTP/1."
	if at := bytes.LastIndex(head, []byte("\n"+first)); at >= 0 {
		return head[at+1:]
	}
	if bytes.HasPrefix(head, []byte(first)) {
		return head
	}
	return nil
}

// hostKey is where Traefik's matchers look for a request's host, nil until a request came through its handlers.
var hostKey any

// findHostKey is the key of the host in a context that Traefik made, or nil.
func findHostKey(ctx any) any {
	found := reflect.ValueOf(ctx)
	for depth := 0; depth < 64; depth++ {
		for found.Kind() == reflect.Interface || found.Kind() == reflect.Ptr {
			found = found.Elem()
		}
		if found.Kind() != reflect.Struct {
			return nil
		}
		if key := found.FieldByName("key"); key.IsValid() && key.Kind() == reflect.Interface && key.Elem().Kind() == reflect.String && key.Elem().String() == "canonical" {
			made := reflect.New(key.Elem().Type()).Elem()
			made.SetString("canonical")
			return made.Interface()
		}
		if found = found.FieldByName("Context"); !found.IsValid() {
			return nil
		}
	}
	return nil
}

// connKey is where the context of a connection holds its conn.
const connKey = "lbgen.conn"

// conn is what is known of a client's connection.
type conn struct {
	by       int      // the serial number of the edge that knows it
	held     *serving // net/http's
	host     string   // the last one that is a Host
	hosts    []string // the same as a field's lines
	buffer   []byte   // net/http's, of which heads are read
	end      *int     // how much of it was
	answer   **answer // to the request under way, nil for none
	used     bool     // there was a plain request
	patience int      // with an answer; see silence
	rest     []byte   // the head of the last one, from the end of its first line on
	fields   int      // of that one, besides Host

	// Of the plain request under way, for the access log.
	began  time.Time
	status int           // that an endpoint answered, 0 for none
	took   time.Duration // until then
	size   int64         // of the answer's body, -1 when the endpoint does not say
	text   string        // its listener, route, pool and endpoint as in a log line; empty when it is not plain
	id     string
}

// The interpreter lays structs out as Go does. These are net/http's conn and response and bufio's Reader and Writer as far as
// they are used, since reflection costs a call for each step; prove compares where their fields are.
type serving struct {
	server, cancel uintptr
	connection     net.Conn
	address        string
	tls            uintptr
	failed         error
	reader         uintptr
	in             *reading
	out            *writing
	method         string
	answer         *answer
	state          uint64 // and the time of its change
}

type answer struct {
	conn    uintptr
	request *http.Request
	body    io.ReadCloser
	cancel  uintptr
	wrote   [3]bool
	lock    [2]uint32
	expects uint32
	to      uintptr
	chunks  [2]uintptr
	chunked [2]bool
	header  http.Header
	called  bool
	written int64
	length  int64
	status  int
}

type reading struct {
	buffer   []byte
	from     io.Reader
	next     int
	buffered int
}

type writing struct {
	failed   error
	buffer   []byte
	buffered int
}

var (
	servingType = reflect.TypeOf(serving{})
	answerType  = reflect.TypeOf(answer{})
	readingType = reflect.TypeOf(reading{})
	writingType = reflect.TypeOf(writing{})

	responseType reflect.Type // net/http's own
)

// find looks once for what all requests of an HTTP/1 connection need.
func (c *conn) find(w http.ResponseWriter) {
	c.held = servingOf(w)
	c.buffer = c.held.in.buffer
	c.end = &c.held.in.next
	c.answer = &c.held.answer
	c.rest = unlike
}

// unlike is the end of no head.
var unlike = []byte{0}

// learns is whether a request is plain whose head does not end as the last one's; the next one's may end as this one's.
func (c *conn) learns(r *http.Request, head []byte, care func([]byte) bool) bool {
	if c.host != r.Host || !startsPlain(head) {
		return false
	}
	if care(head) || !wholly(r, head) {
		return false
	}
	if !c.used { // a connection's only request leaves nothing
		c.used = true
		return true
	}
	c.rest = append([]byte{}, head[bytes.IndexByte(head, '\r'):]...)
	c.fields = len(r.Header)
	out := c.held.out
	if len(out.buffer) < writeSize && out.buffered == 0 {
		out.buffer = make([]byte, writeSize)
	}
	return true
}

// current is the writer of the request under way, nil for none.
func (c *conn) current() http.ResponseWriter {
	found := *c.answer
	if found == nil {
		return nil
	}
	return reflect.NewAt(responseType, reflect.ValueOf(found).UnsafePointer()).Interface().(http.ResponseWriter)
}

// state is that of a connection, as net/http counts it.
func (c *conn) state() http.ConnState { return http.ConnState(c.held.state & 0xff) }

// writeSize is how much of an answer net/http holds before it writes. Its own 4 KiB take two writes for an answer of 5 KB;
// more than this would cost memory while a connection is idle. One that brings a single request keeps those 4 KiB.
const writeSize = 8 * 1024

// folded is whether a head has bare line feeds or folded lines.
func folded(head []byte) bool {
	return bytes.Count(head, lineFeed) != bytes.Count(head, lineEnd) || bytes.Contains(head, foldBlank) ||
		bytes.Contains(head, foldTab)
}

var (
	lineFeed  = []byte("\n")
	lineEnd   = []byte("\r\n")
	foldBlank = []byte("\r\n ")
	foldTab   = []byte("\r\n\t")
)

// rawLines are the values of a header's lines in a head; the name is in lower case.
func rawLines(head []byte, name string) []string {
	found := []string{}
	for _, line := range strings.Split(string(head), "\n")[1:] {
		at := strings.IndexByte(line, ':')
		if at == len(name) && strings.EqualFold(line[:at], name) {
			found = append(found, strings.Trim(line[at+1:], " \t\r"))
		}
	}
	return found
}

// sent is the status and the size of the body that went to the client.
func sent(w http.ResponseWriter) (int, int64) {
	if !isStream(w) {
		found := answerOf(w)
		return found.status, found.written
	}
	stream := streamOf(w)
	if !stream.IsValid() {
		return 0, 0
	}
	return int(stream.FieldByName("status").Int()), stream.FieldByName("wroteBytes").Int()
}

// proxied is whether the client's connection began with a PROXY header.
func proxied(w http.ResponseWriter) bool {
	var connection net.Conn
	if isStream(w) {
		connection = open(streamOf(w).FieldByName("conn").Elem().FieldByName("conn")).(net.Conn)
	} else {
		connection = servingOf(w).connection
	}
	found := within(connection, "*proxyproto.Conn")
	return found.IsValid() && !found.Elem().FieldByName("header").IsNil()
}

// within is the connection of a type of which one of TLS or of Traefik's own is made, or nothing.
func within(connection net.Conn, kind string) reflect.Value {
	found := reflect.ValueOf(connection)
	for depth := 0; depth < 16 && found.IsValid(); depth++ {
		if found.Type().String() == kind {
			return found
		}
		found = below(found)
	}
	return reflect.Value{}
}

// below is what a connection is made of, or nothing.
func below(found reflect.Value) reflect.Value {
	if found.Kind() == reflect.Ptr {
		found = found.Elem()
	}
	if found.Kind() != reflect.Struct {
		return reflect.Value{}
	}
	for i := 0; i < found.NumField(); i++ {
		kind := found.Field(i).Type().String()
		if kind == "net.Conn" || kind == "tcp.WriteCloser" || kind == "*net.TCPConn" {
			next := found.Field(i)
			if next.CanAddr() {
				return reflect.ValueOf(open(next))
			}
			if next.Kind() == reflect.Interface {
				next = next.Elem()
			}
			return next
		}
	}
	return reflect.Value{}
}

// A Pragma without a Cache-Control gets one from net/http over HTTP/1, whose text is a constant: its address tells.
var madeCaching uintptr

// uncached drops a Cache-Control that the client did not send.
func uncached(h http.Header) {
	if lines := h["Cache-Control"]; len(lines) == 1 && reflect.ValueOf(lines[0]).Pointer() == madeCaching {
		delete(h, "Cache-Control")
	}
}
