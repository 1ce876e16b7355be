package lbgen

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// plain answers with a status and its reason phrase.
func plain(w http.ResponseWriter, r *http.Request, status int, edits *Edits) {
	w.Header().Set("Content-Type", "text/plain")
	finish(w, r, status, phrase(status)+"\n", edits)
}

// phrase is the reason phrase of a status by RFC 9110; Go's are older.
func phrase(status int) string {
	if status == http.StatusRequestEntityTooLarge {
		return "Content Too Large"
	}
	if status == http.StatusRequestURITooLong {
		return "URI Too Long"
	}
	return http.StatusText(status)
}

// finish writes an answer whose own headers are set already.
func finish(w http.ResponseWriter, r *http.Request, status int, body string, edits *Edits) {
	if r.ContentLength != 0 && r.ProtoMajor == 1 {
		w.Header().Set("Connection", "close") // else Go reads the request's body before it answers
		linger(w)
	}
	edit(w.Header(), edits)
	bodiless := status == http.StatusNoContent || status == http.StatusNotModified
	if !bodiless {
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	}
	w.WriteHeader(status)
	if !bodiless && r.Method != http.MethodHead {
		_, _ = io.WriteString(w, body)
	}
}

// linger limits how long Go reads the rest of a request's body after the answer, before it closes the connection.
func linger(w http.ResponseWriter) {
	time.AfterFunc(5*time.Second, func() { // a time set now would be forgotten with a read under way
		_ = http.NewResponseController(w).SetReadDeadline(time.Now())
	})
}

// location is the absolute URL of a redirect.
func (e *edge) location(r *http.Request, s *state) string {
	to, q := s.route.Redirect, s.q
	scheme, port := e.conf.Scheme, e.conf.Port
	if to.Scheme != "" {
		scheme, port = to.Scheme, ""
	}
	if to.Port != "" {
		port = to.Port
	}
	if (scheme == "http" && port == "80") || (scheme == "https" && port == "443") {
		port = ""
	}
	host := hostOf(r.Host)
	if to.Host != "" {
		host = to.Host
	} else if host == "" {
		host = e.conf.Address
	}
	if port != "" {
		host += ":" + port
	}
	path := q.path
	if to.Path != "" {
		path = to.Path
	} else if to.Prefix != "" {
		path = withPrefix(s, to.Prefix)
	}
	return scheme + "://" + host + path + q.query
}

// rewritten is the target that the endpoint sees.
func rewritten(s *state) string {
	to, q := s.route.Rewrite, s.q
	if to != nil && to.Path != "" {
		return to.Path + q.query
	}
	if to != nil && to.Prefix != "" {
		return withPrefix(s, to.Prefix) + q.query
	}
	return q.path + q.query
}

// withPrefix replaces the matched prefix (or exact path); the result is never empty and never starts with two slashes.
func withPrefix(s *state, prefix string) string {
	tail := ""
	if s.route.prefix {
		tail = s.q.path[len(strings.TrimRight(s.route.matched, "/")):]
	}
	if path := strings.TrimRight(prefix, "/") + tail; path != "" {
		return path
	}
	return "/"
}
