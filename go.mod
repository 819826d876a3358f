module github.com/capiloop/capiloop

go 1.26.0
