package lbgen

import (
	"bytes"
	"net/http"
	"reflect"
	"strings"
	"sync/atomic"
)

const (
	upper      = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	alnum      = upper + "abcdefghijklmnopqrstuvwxyz0123456789"
	uriChars   = alnum + "-._~:/?[]@!$&'()*+,;=%"
	hostChars  = alnum + "._:[]-"
	hexDigits  = "0123456789ABCDEF"
	unreserved = alnum + "-._~"
)

func only(text, chars string) bool {
	return strings.TrimLeft(text, chars) == ""
}

// origin turns a target into origin-form; an absolute one must agree with the Host line.
func origin(target string, hostLine func() (string, bool)) (string, bool) {
	if strings.HasPrefix(target, "/") {
		return target, true
	}
	scheme, rest, found := strings.Cut(target, "://")
	if scheme = strings.ToLower(scheme); !found || (scheme != "http" && scheme != "https") {
		return "", false
	}
	at := strings.IndexAny(rest, "/?#")
	if at < 0 {
		at = len(rest)
	}
	host, known := hostLine()
	if !known || !strings.EqualFold(host, rest[:at]) {
		return "", false
	}
	if strings.HasPrefix(rest[at:], "/") {
		return rest[at:], true
	}
	return "/" + rest[at:], true
}

// hostOf is the lower-case name in a Host line, without port and one trailing dot.
func hostOf(authority string) string {
	text := strings.ToLower(authority)
	if strings.HasPrefix(text, "[") {
		return strings.Split(text, "]")[0] + "]"
	}
	return strings.TrimSuffix(strings.Split(text, ":")[0], ".")
}

// ways are the fields through which inner got where it went the last time.
var ways atomic.Value

// inner is net/http's own writer below Traefik's wrappers; an invalid value when it is not found.
//
// Traefik decodes and re-cases escapes of the path before any middleware runs, and fills in X-Forwarded headers; the
// only copies of what the client sent are in there.
func inner(w http.ResponseWriter) reflect.Value {
	known := ways.Load()
	if known != nil {
		found := follow(reflect.ValueOf(w), known.([]int))
		if found.IsValid() {
			return found
		}
	}
	way := []int{}
	found := reflect.ValueOf(w)
	for depth := 0; depth < 16; depth++ {
		for found.Kind() == reflect.Interface || found.Kind() == reflect.Ptr {
			found = found.Elem()
			way = append(way, -1)
		}
		if found.Kind() != reflect.Struct {
			break
		}
		if isInner(found) {
			ways.Store(way)
			return found
		}
		at := nextOf(found)
		if at < 0 {
			break
		}
		way = append(way, at)
		found = found.Field(at)
	}
	return reflect.Value{}
}

// follow goes a known way: an index is of a field, -1 an indirection. Each call costs, so nothing is asked on the way; the
// wrappers are of the same types for every request of a protocol, and if once they are not the way is looked for anew.
func follow(from reflect.Value, way []int) (found reflect.Value) {
	defer func() {
		if recover() != nil {
			found = reflect.Value{}
		}
	}()
	found = from
	for _, i := range way {
		if i < 0 {
			found = found.Elem()
		} else {
			found = found.Field(i)
		}
	}
	if !isInner(found) {
		found = reflect.Value{}
	}
	return found
}

func isInner(value reflect.Value) bool {
	kind := value.Type().String()
	return kind == "http.response" || kind == "http.http2responseWriter"
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

// rawTarget is the request's target as the client sent it; false when it is lost.
func rawTarget(w http.ResponseWriter) (string, bool) {
	found := inner(w)
	if !found.IsValid() {
		return "", false
	}
	if found.Type().String() != "http.response" {
		found = found.FieldByName("rws").Elem() // of HTTP/2
	}
	return found.FieldByName("req").Elem().FieldByName("RequestURI").String(), true
}

// rawHead is the head of the request as it came, nil when it was larger than net/http's read buffer (4 KiB).
func rawHead(w http.ResponseWriter, method, target string) []byte {
	found := inner(w)
	if !found.IsValid() || found.Type().String() != "http.response" {
		return nil
	}
	reader := found.FieldByName("conn").Elem().FieldByName("bufr").Elem()
	buffer := reader.FieldByName("buf").Bytes()
	end := int(reader.FieldByName("r").Int())
	if end > len(buffer) {
		return nil
	}
	head := buffer[:end]
	start := bytes.LastIndex(head, []byte(method+" "+target+" HTTP/1."))
	if start < 0 {
		return nil
	}
	return head[start:]
}

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

// sent is the status and the size of the body that went to the client; 0 when it is not known.
func sent(w http.ResponseWriter) (int, int64) {
	found := inner(w)
	if !found.IsValid() {
		return 0, 0
	}
	if found.Type().String() == "http.response" {
		return int(found.FieldByName("status").Int()), found.FieldByName("written").Int()
	}
	stream := found.FieldByName("rws").Elem()
	if !stream.IsValid() {
		return 0, 0
	}
	return int(stream.FieldByName("status").Int()), stream.FieldByName("wroteBytes").Int()
}

// proxied is whether the client's connection began with a PROXY header: what Traefik found of one is in the connection
// below those of TLS and of Traefik's own accounts.
func proxied(w http.ResponseWriter) bool {
	found := inner(w)
	if !found.IsValid() {
		return false
	}
	if found.Type().String() == "http.response" {
		found = found.FieldByName("conn").Elem().FieldByName("rwc")
	} else {
		found = found.FieldByName("rws").Elem().FieldByName("conn").Elem().FieldByName("conn")
	}
	for depth := 0; depth < 16; depth++ {
		for found.Kind() == reflect.Interface || found.Kind() == reflect.Ptr {
			found = found.Elem()
		}
		if found.Kind() != reflect.Struct {
			return false
		}
		if found.Type().String() == "proxyproto.Conn" {
			return !found.FieldByName("header").IsNil()
		}
		next := reflect.Value{}
		for i := 0; i < found.NumField() && !next.IsValid(); i++ {
			kind := found.Field(i).Type().String()
			if kind == "net.Conn" || kind == "tcp.WriteCloser" || strings.HasSuffix(kind, "Conn") {
				next = found.Field(i)
			}
		}
		if !next.IsValid() {
			return false
		}
		found = next
	}
	return false
}
