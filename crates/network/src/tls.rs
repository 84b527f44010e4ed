//! TLS for this process: rustls with ring as its cryptography provider.

/// Installs ring as the cryptography provider of this process, unless one is installed. Call it
/// before building a client.
pub fn prepare_tls() {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // Another thread may have installed the same provider in the meantime, which is just as
        // good.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
}
