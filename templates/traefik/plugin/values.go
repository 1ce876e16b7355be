package lbgen

import (
	"bufio"
	"crypto/sha1"
	"encoding/hex"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
)

// Values are edits of headers whose values are made of facts of the request.
type Values struct {
	Request  []Edit
	Response []Edit
	Login    []string // the address to which a redirect to signIn leads, as texts and facts of the request in turn
	Path     string   // the regular expression that the path matches, for its groups
}

// signIn is the address that Traefik's forwardAuth knows in place of one that depends on the request.
const signIn = "https://lbgen.invalid/login"

// Edit replaces a header, or with Add appends a line to it. A value is a list in which texts and facts take turns; an
// empty one makes no line, and no value at all removes the header.
type Edit struct {
	Name  string
	Value []string
	Add   bool
}

func writeValues(next http.Handler, config *Values) (http.Handler, error) {
	path, err := compilePath(config.Path)
	if err != nil {
		return nil, err
	}
	onRequest, onResponse, login := config.Request, config.Response, config.Login
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		groups := findGroups(r, path)
		request, response := expandAll(onRequest, r, groups), expandAll(onResponse, r, groups)
		applyEdits(r.Header, onRequest, request)
		if len(onResponse)+len(login) == 0 {
			next.ServeHTTP(w, r)
			return
		}
		address := expand(login, r, groups)
		next.ServeHTTP(&editedResponse{ResponseWriter: w, edits: onResponse, values: response, login: address}, r)
	}), nil
}

func compilePath(pattern string) (*regexp.Regexp, error) {
	if pattern == "" {
		return nil, nil
	}
	return regexp.Compile("^(?:" + pattern + ")$")
}

func findGroups(r *http.Request, path *regexp.Regexp) []string {
	if path == nil {
		return nil
	}
	return path.FindStringSubmatch(r.URL.EscapedPath())
}

func applyEdits(header http.Header, edits []Edit, values []string) {
	for i, edit := range edits {
		if !edit.Add {
			header.Del(edit.Name)
		}
		if values[i] != "" {
			header.Add(edit.Name, values[i])
		}
	}
}

func expandAll(edits []Edit, r *http.Request, groups []string) []string {
	values := make([]string, len(edits))
	for i, edit := range edits {
		values[i] = expand(edit.Value, r, groups)
	}
	return values
}

func expand(parts []string, r *http.Request, groups []string) string {
	text := ""
	for i, part := range parts {
		if i%2 == 1 {
			part = findFact(part, r, groups)
		}
		text += part
	}
	return text
}

func findFact(name string, r *http.Request, groups []string) string {
	_, query, hasQuery := strings.Cut(r.RequestURI, "?")
	if hasQuery {
		query = "?" + query
	}
	switch name {
	case "client_ip":
		return hostOf(r.RemoteAddr)
	case "client_port":
		_, port, _ := net.SplitHostPort(r.RemoteAddr)
		return port
	case "host":
		return ownHost(r)
	case "method":
		return r.Method
	case "path":
		return r.URL.EscapedPath()
	case "query":
		return strings.TrimPrefix(query, "?")
	case "args":
		return query
	case "uri":
		return r.URL.EscapedPath() + query
	case "request_id":
		return r.Header.Get("X-Request-Id")
	}
	kind, rest, _ := strings.Cut(name, ".")
	switch kind {
	case "header":
		if rest == "host" {
			return r.Host
		}
		return strings.Join(r.Header.Values(rest), ", ")
	case "cookie":
		return findCookie(r, rest)
	case "capture":
		if number, _ := strconv.Atoi(rest); number < len(groups) {
			return groups[number]
		}
		return ""
	}
	return findInTLS(name, r)
}

func findInTLS(name string, r *http.Request) string {
	if r.TLS == nil {
		return ""
	}
	if name == "server_name" {
		return r.TLS.ServerName
	}
	if len(r.TLS.PeerCertificates) == 0 || len(r.TLS.VerifiedChains) == 0 {
		if name == "client_cert.verified" {
			return "false"
		}
		return ""
	}
	certificate := r.TLS.PeerCertificates[0]
	switch name {
	case "client_cert.subject":
		return certificate.Subject.String()
	case "client_cert.fingerprint":
		sum := sha1.Sum(certificate.Raw)
		return hex.EncodeToString(sum[:])
	}
	return "true"
}

// findCookie returns the first cookie of that name as it was sent, without quotes. Go's own reader drops some.
func findCookie(r *http.Request, name string) string {
	for _, line := range r.Header["Cookie"] {
		for _, pair := range strings.Split(line, ";") {
			found, value, ok := strings.Cut(strings.Trim(pair, " \t"), "=")
			if ok && found == name {
				if len(value) > 1 && value[0] == '"' && value[len(value)-1] == '"' {
					value = value[1 : len(value)-1]
				}
				return value
			}
		}
	}
	return ""
}

// editedResponse edits the headers of a final response. Traefik sees no Flusher in a plugin's writer, so what an endpoint
// sends, as in a stream, is flushed here.
type editedResponse struct {
	http.ResponseWriter
	edits   []Edit
	values  []string
	login   string
	written bool
	leads   bool // to the login: Traefik's own text names another address
	flushes bool
}

func (w *editedResponse) WriteHeader(status int) {
	if !w.written && (status >= 200 || status == http.StatusSwitchingProtocols) {
		w.written = true
		applyEdits(w.Header(), w.edits, w.values)
		if w.login != "" && w.Header().Get("Location") == signIn {
			w.leads = true
			w.Header().Del("Content-Type")
			w.Header().Set("Content-Length", "0")
			w.Header().Set("Location", w.login)
		}
		w.flushes = status != http.StatusSwitchingProtocols
	}
	w.ResponseWriter.WriteHeader(status)
	w.flush()
}

func (w *editedResponse) Write(data []byte) (int, error) {
	if !w.written {
		w.WriteHeader(http.StatusOK)
	}
	if w.leads {
		return len(data), nil
	}
	count, err := w.ResponseWriter.Write(data)
	w.flush()
	return count, err
}

func (w *editedResponse) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	applyEdits(w.Header(), w.edits, w.values) // of a WebSocket's handshake, whose own headers come after this
	return http.NewResponseController(w.ResponseWriter).Hijack()
}

func (w *editedResponse) flush() {
	if w.flushes {
		if flusher, ok := w.ResponseWriter.(http.Flusher); ok {
			flusher.Flush()
		}
	}
}
