//! TLS from a certificate and a key in PEM files.

use std::path::Path;

use anyhow::Context;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

pub(super) fn config(cert: &Path, key: &Path) -> anyhow::Result<ServerConfig> {
    let unreadable = |path: &Path| format!("cannot read {}", path.display());
    let chain = CertificateDer::pem_file_iter(cert).with_context(|| unreadable(cert))?;
    let chain: Vec<_> = chain.collect::<Result<_, _>>().with_context(|| unreadable(cert))?;
    let secret = PrivateKeyDer::from_pem_file(key).with_context(|| unreadable(key))?;
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    builder
        .with_no_client_auth()
        .with_single_cert(chain, secret)
        .with_context(|| format!("the certificate {} and the key {} do not go together", cert.display(), key.display()))
}
