module example.com/lbgen/comparator

go 1.20
