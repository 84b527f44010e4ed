//! The errors with which the HTTP server fails to start, worded for the operator. `refusal` has the
//! errors of single requests.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot listen for HTTP on {address}")]
    Listen { address: SocketAddr, source: io::Error },
    #[error("cannot read the HTTP token in {}", .path.display())]
    ReadToken { path: PathBuf, source: io::Error },
    #[error("cannot write the HTTP token to {}", .path.display())]
    WriteToken { path: PathBuf, source: io::Error },
    #[error("the HTTP token {} must belong to you, and only you may read it (chmod 600)", .0.display())]
    TokenOpenToOthers(PathBuf),
    #[error(
        "the HTTP token in {} must have at least {shortest} letters, digits or signs and no spaces; remove the file \
         and acpd makes a new one", .path.display()
    )]
    WeakToken { path: PathBuf, shortest: usize },
    #[error("http.tls_cert and http.tls_key: cannot read {}", .path.display())]
    ReadPem { path: PathBuf, source: rustls::pki_types::pem::Error },
    #[error(
        "http.tls_cert and http.tls_key: the certificate {} and the key {} do not belong together",
        .cert.display(), .key.display()
    )]
    CertificateAndKey { cert: PathBuf, key: PathBuf, source: rustls::Error },
    #[error("http.tls_cert and http.tls_key: TLS cannot be set up")]
    Tls(#[source] rustls::Error),
}
