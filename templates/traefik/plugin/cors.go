package lbgen

import (
	"net/http"
	"strconv"
	"strings"
)

var simpleMethods = map[string]bool{"GET": true, "HEAD": true, "POST": true}

var simpleHeaders = map[string]bool{"accept": true, "accept-language": true, "content-language": true, "content-type": true}

var corsNames = []string{
	"Access-Control-Allow-Origin", "Access-Control-Allow-Methods", "Access-Control-Allow-Headers",
	"Access-Control-Allow-Credentials", "Access-Control-Expose-Headers", "Access-Control-Max-Age",
	"Access-Control-Allow-Private-Network",
}

func isPreflight(r *http.Request) bool {
	return r.Method == http.MethodOptions && len(r.Header["Origin"]) > 0 && len(r.Header["Access-Control-Request-Method"]) > 0
}

// allowed is the value of Access-Control-Allow-Origin for a page, empty when it may not.
func (c *Cors) allowed(lines []string) string {
	if len(lines) != 1 || lines[0] == "" {
		return ""
	}
	for _, each := range c.Origins {
		if each.Any {
			if c.constant() {
				return "*"
			}
			return lines[0]
		}
		if each.covers(lines[0]) {
			return lines[0]
		}
	}
	return ""
}

// constant is whether the answer is the same for every page.
func (c *Cors) constant() bool {
	if c.Credentials {
		return false
	}
	for _, each := range c.Origins {
		if each.Any {
			return true
		}
	}
	return false
}

func (o *Origin) covers(origin string) bool {
	if !strings.HasPrefix(origin, o.Scheme) || !strings.HasSuffix(origin, o.Port) || len(origin) < len(o.Scheme)+len(o.Port) {
		return false
	}
	host := origin[len(o.Scheme) : len(origin)-len(o.Port)]
	if o.Wildcard {
		return strings.HasSuffix(host, "."+o.Host) && only(host, alnum+".-")
	}
	return host == o.Host
}

// preflight sets the headers of an answer to a preflight; none when it is not allowed.
func (c *Cors) preflight(h http.Header, r *http.Request) string {
	origin := c.allowed(r.Header["Origin"])
	method := r.Header.Get("Access-Control-Request-Method")
	known := simpleMethods[method]
	for _, each := range c.Methods {
		known = known || each == method
	}
	if origin == "" || !known {
		return ""
	}
	for _, name := range strings.Split(strings.ToLower(strings.Join(r.Header["Access-Control-Request-Headers"], ",")), ",") {
		name = strings.Trim(name, " \t")
		known = name == "" || simpleHeaders[name]
		for _, each := range c.Headers {
			known = known || each == name
		}
		if !known {
			return ""
		}
	}
	h.Set("Access-Control-Allow-Methods", strings.Join(c.Methods, ", "))
	if len(c.Headers) > 0 {
		h.Set("Access-Control-Allow-Headers", strings.Join(c.Headers, ", "))
	}
	if c.MaxAge >= 0 {
		h.Set("Access-Control-Max-Age", strconv.Itoa(c.MaxAge))
	}
	return origin
}

// strip drops what the endpoint says about other origins.
func (c *Cors) strip(h http.Header) {
	for _, name := range corsNames {
		delete(h, name)
	}
}

// show tells the page of an allowed origin that it may read the answer.
func (c *Cors) show(h http.Header, origin string) {
	if !c.constant() {
		h.Add("Vary", "Origin")
	}
	if origin == "" {
		return
	}
	h.Set("Access-Control-Allow-Origin", origin)
	if c.Credentials {
		h.Set("Access-Control-Allow-Credentials", "true")
	}
	if len(c.Expose) > 0 && len(h["Access-Control-Allow-Methods"]) == 0 {
		h.Set("Access-Control-Expose-Headers", strings.Join(c.Expose, ", "))
	}
}
