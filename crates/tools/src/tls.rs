//! TLS for what tools fetch: rustls with ring, installed once a process.

/// To be called before a client is built.
pub(crate) fn prepare() {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // Another thread may have been faster, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
}
