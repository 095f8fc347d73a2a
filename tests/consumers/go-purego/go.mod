module model

go 1.21

require github.com/ebitengine/purego v0.9.1
