//! Builds the server's TLS configuration from a certificate and a key in PEM files.

use std::path::Path;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::error::Error;

pub(crate) fn config(cert: &Path, key: &Path) -> Result<ServerConfig, Error> {
    let unreadable = |path: &Path| {
        let path = path.to_owned();
        move |source: pem::Error| Error::ReadPem { path, source }
    };
    let chain = CertificateDer::pem_file_iter(cert).map_err(unreadable(cert))?;
    let chain: Vec<_> = chain.collect::<Result<_, _>>().map_err(unreadable(cert))?;
    let secret = PrivateKeyDer::from_pem_file(key).map_err(unreadable(key))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder =
        ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().map_err(Error::Tls)?;
    builder.with_no_client_auth().with_single_cert(chain, secret).map_err(|source| Error::CertificateAndKey {
        cert: cert.to_owned(),
        key: key.to_owned(),
        source,
    })
}
