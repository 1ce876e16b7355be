module lbgen.local/lbgen

go 1.22
