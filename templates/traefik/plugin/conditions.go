package lbgen

import (
	"net/http"
	"net/url"
	"strings"
)

// Asked says what the rules of a listener look at besides host, path and method. Traefik's own matchers read some of it
// in another way, so that they get a request made for them alone.
type Asked struct {
	Headers []string
	Query   []string
	Cookies []string
	Path    bool // expressions see the path as it was sent
}

// request is what rules and keys look at.
type request struct {
	path    string // as sent
	matched string // escapes in upper case
	query   string // with its question mark, or empty
	header  http.Header
	host    string // what rules that ask for the header Host look at
}

// A cookie is a line of its own, name=value, of cookieLines; rules for the header Cookie itself find that elsewhere.
const (
	cookieLines  = "Cookie"
	cookieHeader = "Lbgen-Cookie"
	pathHeader   = "Lbgen-Path"
)

// fill gives a request for Traefik's matchers what the rules look at.
func (a *Asked) fill(r *http.Request, q *request) {
	for _, name := range a.Headers {
		lines := q.header[name]
		if name == "Host" {
			lines = []string{q.host}
		}
		if name == cookieLines {
			name = cookieHeader
		}
		r.Header[name] = elements(lines)
	}
	for _, name := range a.Cookies {
		if text, found := cookie(q.header["Cookie"], name); found {
			r.Header[cookieLines] = append(r.Header[cookieLines], name+"="+text)
		}
	}
	pairs := []string{}
	for _, name := range a.Query {
		if text, found := parameter(q.query, name); found {
			pairs = append(pairs, url.QueryEscape(name)+"="+url.QueryEscape(text))
		}
	}
	r.URL.RawQuery = strings.Join(pairs, "&")
	if a.Path {
		r.Header[pathHeader] = []string{q.path}
	}
}

// elements are what a condition may hold for: all lines of a header combined, and each element of the list they are.
func elements(lines []string) []string {
	if len(lines) == 0 {
		return nil
	}
	if len(lines) == 1 && strings.IndexByte(lines[0], ',') < 0 && strings.Trim(lines[0], " \t") == lines[0] {
		return lines
	}
	combined := strings.Join(lines, ", ")
	found := []string{}
	if strings.Join(lines, "") != "" {
		found = append(found, combined)
	}
	for _, element := range strings.Split(combined, ",") {
		found = append(found, strings.Trim(element, " \t"))
	}
	return found
}

// parameter is the decoded value of the first pair of that name in a query.
func parameter(query, name string) (string, bool) {
	if query == "" {
		return "", false
	}
	for _, pair := range strings.Split(query[1:], "&") {
		if pair == "" {
			continue
		}
		found, text := pair, ""
		if at := strings.IndexByte(pair, '='); at >= 0 {
			found, text = pair[:at], pair[at+1:]
		}
		if found == name {
			return unescape(text), true
		}
	}
	return "", false
}

// unescape decodes escapes and leaves broken ones as they are.
func unescape(text string) string {
	if strings.IndexByte(text, '%') < 0 {
		return text
	}
	if whole, err := url.PathUnescape(text); err == nil {
		return whole
	}
	parts := strings.Split(text, "%")
	found := parts[0]
	for _, part := range parts[1:] {
		if len(part) >= 2 {
			if char, err := url.PathUnescape("%" + part[:2]); err == nil {
				found += char + part[2:]
				continue
			}
		}
		found += "%" + part
	}
	return found
}

// cookie is the value of the first cookie of that name, without its quotes.
func cookie(lines []string, name string) (string, bool) {
	for _, line := range lines {
		for _, pair := range strings.Split(line, ";") {
			pair = strings.Trim(pair, " \t")
			at := strings.IndexByte(pair, '=')
			if at < 0 || pair[:at] != name {
				continue
			}
			text := pair[at+1:]
			if len(text) > 1 && strings.HasPrefix(text, `"`) && strings.HasSuffix(text, `"`) {
				text = text[1 : len(text)-1]
			}
			return text, true
		}
	}
	return "", false
}
