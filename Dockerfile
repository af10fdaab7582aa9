# One image, one program, every role. The last stage is empty but for the static
# program and the roots of trust: it runs as a number, has no shell, and gets
# SIGTERM itself (exec form), so that a stop drains instead of cutting.
ARG GO_IMAGE=golang:1.26
FROM ${GO_IMAGE} AS build
WORKDIR /src
COPY go.work go.work.sum* ./
COPY pkg pkg
COPY schemas schemas
COPY services services
COPY integration/go.mod integration/go.sum integration/
ARG VERSION=dev
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=${VERSION}" -o /sluice ./services/sluice

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /sluice /sluice
USER 65532:65532
ENTRYPOINT ["/sluice"]
