package lbgen

import (
	"net/http"
	"net/http/httptrace"
	"strconv"
)

// ErrorPage replaces answers with a status from First to Last: Traefik's own, with Intercept those of endpoints too.
type ErrorPage struct {
	First       int
	Last        int
	Status      int // 0 = it stays
	Intercept   bool
	ContentType string
	Body        string
	BodyParts   []string // texts and facts of the request in turn, instead of Body
}

// ErrorPages are in the order of trial. Keep names the fields of an endpoint's answer that stay beside a page, such as
// those that the route sets.
type ErrorPages struct {
	Pages []ErrorPage
	Keep  []string
}

// literal is on the answers of routes that respond by themselves, which no page replaces.
const literal = "X-Lbgen-Literal"

// What described the body that a page replaces.
var replaced = []string{
	"Accept-Ranges", "Content-Disposition", "Content-Encoding", "Content-Language", "Content-Length", "Content-Range",
	"Etag", "Last-Modified", "Trailer", "X-Content-Type-Options",
}

// showPages looks at each answer's status. WebSockets pass: their connection is taken over from this writer's.
func showPages(next http.Handler, config *ErrorPages) http.Handler {
	pages, asks := config.Pages, false
	for _, page := range pages {
		asks = asks || len(page.BodyParts) > 0
	}
	kept := map[string]bool{}
	for _, name := range config.Keep {
		kept[http.CanonicalHeaderKey(name)] = true
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "" {
			next.ServeHTTP(w, r)
			return
		}
		pages := pages
		if asks { // before anything changes the request
			pages = expandPages(pages, r)
		}
		writer := &pageWriter{w: w, pages: pages, kept: kept, isHead: r.Method == http.MethodHead}
		// Traefik answers as an endpoint does: only the connection tells whether one has.
		trace := &httptrace.ClientTrace{
			GetConn:              func(endpoint string) { writer.answered = false },
			GotFirstResponseByte: func() { writer.answered = true },
		}
		next.ServeHTTP(writer, r.WithContext(httptrace.WithClientTrace(r.Context(), trace)))
	})
}

func expandPages(pages []ErrorPage, r *http.Request) []ErrorPage {
	expanded := make([]ErrorPage, len(pages))
	copy(expanded, pages)
	for i, page := range pages {
		if len(page.BodyParts) > 0 {
			expanded[i].Body = expand(page.BodyParts, r, nil)
		}
	}
	return expanded
}

type pageWriter struct {
	w        http.ResponseWriter
	pages    []ErrorPage
	kept     map[string]bool
	isHead   bool
	answered bool // an endpoint has
	begun    bool
	replaces bool
}

func (p *pageWriter) Header() http.Header {
	return p.w.Header()
}

func (p *pageWriter) WriteHeader(status int) {
	if p.begun {
		return
	}
	if status < 200 {
		p.w.WriteHeader(status)
		return
	}
	p.begun = true
	header := p.w.Header()
	own := header.Get(literal) == ""
	header.Del(literal)
	page := p.find(status)
	if page == nil || !own || (p.answered && !page.Intercept) {
		p.w.WriteHeader(status)
		return
	}
	p.replaces = true
	for _, name := range replaced {
		header.Del(name)
	}
	if p.answered {
		for name := range header {
			if !p.kept[name] {
				delete(header, name)
			}
		}
	}
	header.Set("Content-Type", page.ContentType)
	header.Set("Content-Length", strconv.Itoa(len(page.Body)))
	if page.Status > 0 {
		status = page.Status
	}
	p.w.WriteHeader(status)
	if !p.isHead {
		p.w.Write([]byte(page.Body)) // a client that left gets nothing
	}
}

func (p *pageWriter) find(status int) *ErrorPage {
	for i := range p.pages {
		if p.pages[i].First <= status && status <= p.pages[i].Last {
			return &p.pages[i]
		}
	}
	return nil
}

// Write sends on at once what a stream brings: Traefik cannot flush through an interpreted writer.
func (p *pageWriter) Write(data []byte) (int, error) {
	if !p.begun {
		p.WriteHeader(http.StatusOK)
	}
	if p.replaces {
		return len(data), nil
	}
	n, err := p.w.Write(data)
	if flusher, ok := p.w.(http.Flusher); ok && err == nil {
		flusher.Flush()
	}
	return n, err
}
