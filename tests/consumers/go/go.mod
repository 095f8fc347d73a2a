module example.org/model

go 1.21
