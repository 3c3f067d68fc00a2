//! Tests TCP and TLS with real sockets on the loopback interface.

mod dial;
mod server;
mod tls_openssl;
