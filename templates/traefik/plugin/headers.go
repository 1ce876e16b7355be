package lbgen

import (
	"crypto/rand"
	"encoding/hex"
	"net/http"
	"strings"
)

// arrival is where a request came from.
type arrival struct {
	peer  string
	trust bool
}

var trailers = []string{"trailers"}

var forwardedNames = []string{"X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host", "X-Forwarded-Port"}

// forwarded leaves the headers as they go on, before any edit; Go's proxy drops those that end here.
func (e *edge) forwarded(r *http.Request, from *arrival) {
	h := r.Header
	delete(h, "Te") // of which Go's proxy would leave something
	if h["Connection"] != nil || h["Upgrade"] != nil || h["Pragma"] != nil {
		strip(r)
	}
	if from.trust {
		e.appended(r, from)
		return
	}
	if !e.conf.Forwarded || !e.conf.RequestID || r.Host == "" {
		e.strange(h)
	}
	if e.conf.Forwarded {
		h["X-Forwarded-For"] = []string{from.peer}
		h["X-Forwarded-Proto"] = e.scheme
		h["X-Forwarded-Port"] = e.port
		if r.Host != "" {
			h["X-Forwarded-Host"] = []string{r.Host}
		}
	}
	if e.conf.RequestID {
		h["X-Request-Id"] = []string{newID()}
	}
}

// strip drops what the client names in Connection, since Go's proxy would drop that after ours was set, an upgrade that is
// none, and what net/http made of a Pragma.
func strip(r *http.Request) {
	h := r.Header
	if !isWebSocket(r) {
		delete(h, "Upgrade")
	}
	if lines := h["Connection"]; lines != nil {
		nominate(r, lines)
	}
	if _, asked := h["Pragma"]; asked && r.ProtoMajor == 1 {
		uncached(h)
	}
}

// strange drops what somebody who is not trusted says and nobody says anew.
func (e *edge) strange(h http.Header) {
	for _, name := range forwardedNames {
		delete(h, name)
	}
	delete(h, "X-Request-Id")
}

// appended goes on with what a trusted peer says.
func (e *edge) appended(r *http.Request, from *arrival) {
	h := r.Header
	if e.conf.Forwarded {
		for _, name := range forwardedNames {
			join(h, name)
		}
		list := from.peer
		if sent := h["X-Forwarded-For"]; len(sent) > 0 {
			list = sent[0] + ", " + list
		}
		h["X-Forwarded-For"] = []string{list}
		if len(h["X-Forwarded-Proto"]) == 0 {
			h["X-Forwarded-Proto"] = e.scheme
		}
		if len(h["X-Forwarded-Host"]) == 0 && r.Host != "" {
			h["X-Forwarded-Host"] = []string{r.Host}
		}
		if len(h["X-Forwarded-Port"]) == 0 {
			h["X-Forwarded-Port"] = e.port
		}
	}
	if e.conf.RequestID && !kept(h) {
		h["X-Request-Id"] = []string{newID()}
	}
}

// kept is whether a trusted peer sent an id.
func kept(h http.Header) bool {
	join(h, "X-Request-Id")
	return len(h["X-Request-Id"]) > 0
}

// join makes one line of several and drops empty ones.
func join(h http.Header, name string) {
	lines := h[name]
	if len(lines) == 0 {
		return
	}
	kept := []string{}
	for _, line := range lines {
		if line != "" {
			kept = append(kept, line)
		}
	}
	if len(kept) == 0 {
		delete(h, name)
		return
	}
	h[name] = []string{strings.Join(kept, ", ")}
}

// neverNominated hides, where it is lost, who asks for what.
var neverNominated = map[string]bool{"host": true, "x-forwarded-for": true, "x-forwarded-host": true, "x-forwarded-proto": true}

// nominates is whether what Connection names may be; if not it was answered.
func nominates(w http.ResponseWriter, r *http.Request) bool {
	if mayNominate(r.Header["Connection"]) {
		return true
	}
	w.Header().Set("Connection", "close")
	plain(w, r, http.StatusBadRequest, nil)
	return false
}

// mayNominate is whether Connection names only what may be lost.
func mayNominate(lines []string) bool {
	for _, line := range lines {
		if line == "keep-alive" || line == "close" {
			continue
		}
		for _, token := range strings.Split(line, ",") {
			name := strings.ToLower(strings.Trim(token, " \t"))
			if neverNominated[name] || strings.HasPrefix(name, ":") {
				return false
			}
		}
	}
	return true
}

// nominate drops what Connection names, before anything is made in its place.
func nominate(r *http.Request, lines []string) {
	upgrade := isWebSocket(r)
	for _, line := range lines {
		if line == "keep-alive" || line == "close" {
			continue
		}
		for _, token := range strings.Split(line, ",") {
			name := strings.Trim(token, " \t")
			if name != "" && !(upgrade && strings.EqualFold(name, "upgrade")) {
				r.Header.Del(name)
			}
		}
	}
	delete(r.Header, "Connection")
	if upgrade {
		r.Header["Connection"] = []string{"Upgrade"}
	}
}

func isWebSocket(r *http.Request) bool {
	asked := r.Header["Upgrade"]
	if r.Method != http.MethodGet || len(asked) != 1 || !strings.EqualFold(asked[0], "websocket") {
		return false
	}
	for _, line := range r.Header["Connection"] {
		for _, token := range strings.Split(line, ",") {
			if strings.EqualFold(strings.Trim(token, " \t"), "upgrade") {
				return true
			}
		}
	}
	return false
}

func edit(h http.Header, edits *Edits) {
	if edits == nil {
		return
	}
	for _, name := range edits.Remove {
		h.Del(name)
	}
	for _, pair := range edits.Set {
		h.Set(pair.Name, pair.Value)
	}
	for _, pair := range edits.Add {
		h.Add(pair.Name, pair.Value)
	}
}

func newID() string {
	id := make([]byte, 16)
	_, _ = rand.Read(id)
	return hex.EncodeToString(id)
}
