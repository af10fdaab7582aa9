module sluice/schemas

go 1.26
