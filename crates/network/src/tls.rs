//! TLS for this process: rustls with the cryptography of ring.

/// Installs ring as the cryptography of this process, unless another part has done so. Call it before building a client.
pub fn prepare_tls() {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // Another thread may have installed the same provider in the meantime, which is just as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
}
