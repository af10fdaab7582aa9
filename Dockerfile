# One image, one program, every role. It is empty but for the static program and
# the roots of trust: it runs as a number, has no shell, and gets SIGTERM itself
# (exec form), so that a stop drains instead of cutting.

# For a program that is built already (`make build`): --target prebuilt
FROM scratch AS prebuilt
COPY bin/sluice /sluice
USER 65532:65532
ENTRYPOINT ["/sluice"]

FROM golang:1.26 AS build
WORKDIR /src
COPY go.work go.work.sum ./
COPY pkg/go.mod pkg/go.sum pkg/
COPY schemas/go.mod schemas/
COPY services/go.mod services/go.sum services/
COPY integration/go.mod integration/go.sum integration/
RUN cd services && GOWORK=off go mod download
COPY pkg pkg
COPY schemas schemas
COPY services services
ARG VERSION=dev
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=${VERSION}" -o /sluice ./services/sluice

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /sluice /sluice
USER 65532:65532
ENTRYPOINT ["/sluice"]
