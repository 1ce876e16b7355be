package lbgen

import (
	"regexp"
	"strings"
)

const (
	upper      = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	alnum      = upper + "abcdefghijklmnopqrstuvwxyz0123456789"
	uriChars   = alnum + "-._~:/?[]@!$&'()*+,;=%"
	hexDigits  = "0123456789ABCDEF"
	unreserved = alnum + "-._~"
)

func only(text, chars string) bool {
	return strings.TrimLeft(text, chars) == ""
}

// authority is the form of a Host line; lbgen/plan/request.py has the same.
var authority = regexp.MustCompile(`^(?:(?:[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*\.?|\[[0-9A-Fa-f:.]+\])(?::(?:[0-9]{0,4}|[1-5][0-9]{4}|6(?:[0-4][0-9]{3}|5(?:[0-4][0-9]{2}|5(?:[0-2][0-9]|3[0-5])))))?)$`)

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
