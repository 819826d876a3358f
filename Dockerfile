# docker build --build-arg VERSION=$(git describe --tags --always) -t capiloop .
# docker run -p 8080:8080 -v capiloop:/data capiloop
FROM golang:1.27 AS build
WORKDIR /src
COPY go.mod go.sum* ./
RUN go mod download
COPY . .
ARG VERSION=dev
# timetzdata: the image has no /usr/share/zoneinfo.
RUN CGO_ENABLED=0 go build -trimpath -buildvcs=false -tags timetzdata \
      -ldflags "-s -w -X main.version=${VERSION}" -o /out/capiloop ./cmd/capiloop
# An empty image has no folder to write to. The database goes to /data, SQLite's temporary files to /tmp.
RUN mkdir -p /out/writable/data && mkdir -m 1777 /out/writable/tmp

FROM scratch
LABEL org.opencontainers.image.title="Capiloop" \
      org.opencontainers.image.source="https://github.com/capiloop/capiloop" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build --chown=65532:65532 /out/writable/ /
COPY --from=build /out/capiloop /capiloop
COPY LICENSE /LICENSE
USER 65532:65532
VOLUME /data
EXPOSE 8080
ENTRYPOINT ["/capiloop"]
CMD ["serve", "--data", "/data", "--listen", "0.0.0.0:8080"]
