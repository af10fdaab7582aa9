module sluice/integration

go 1.26
