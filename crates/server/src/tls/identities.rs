//! Identities in the certificate of a driver.
//!
//! ```text
//! subject alternative name, URI:spiffe://bank/ann   ─▶  spiffe://bank/ann
//! subject, CN = ann                                 ─▶  CN=ann
//! ```

use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

/// Beginning of the identity of a common name.
const COMMON: &str = "CN=";
/// Maximum number of identities that are taken from a certificate.
const IDENTITIES_MAX: usize = 16;

/// Returns the identities in a certificate that was verified: the URIs of its names, then its common
/// name. A certificate that cannot be read has none.
pub(crate) fn identities(certificate: &[u8]) -> Vec<String> {
    let Ok((_, certificate)) = X509Certificate::from_der(certificate) else { return Vec::new() };
    let names = certificate.subject_alternative_name().ok().flatten();
    let uris = names.iter().flat_map(|names| &names.value.general_names).filter_map(|name| {
        match name {
            // A name without a scheme is no URI, and must not pass for a common name.
            GeneralName::URI(uri) if uri.contains(':') && !uri.starts_with(COMMON) => {
                Some((*uri).to_owned())
            }
            _ => None,
        }
    });
    let common = certificate.subject().iter_common_name();
    let common = common.filter_map(|name| Some(format!("{COMMON}{}", name.as_str().ok()?)));
    uris.chain(common.take(1)).take(IDENTITIES_MAX).collect()
}

#[cfg(test)]
mod tests {
    use carnet_base::{Rng, SeededRng};
    use rcgen::{CertificateParams, DnType, KeyPair, SanType};

    use super::*;

    fn certificate(uris: &[&str], common: &str) -> Vec<u8> {
        let mut params = CertificateParams::new(vec!["ann.example".to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, common);
        let uri = |uri: &&str| SanType::URI((*uri).try_into().unwrap());
        params.subject_alt_names.extend(uris.iter().map(uri));
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec()
    }

    #[test]
    fn uris_come_before_the_common_name() {
        let two = certificate(&["spiffe://bank/ann", "spiffe://bank/teller"], "ann");
        assert_eq!(identities(&two), ["spiffe://bank/ann", "spiffe://bank/teller", "CN=ann"]);
        assert_eq!(identities(&certificate(&[], "ann")), ["CN=ann"], "DNS names are no identities");
        assert_eq!(identities(&certificate(&["CN=admin", "CN=a:b"], "ann")), ["CN=ann"]);
    }

    #[test]
    fn arbitrary_certificates_are_read() {
        let valid = certificate(&["spiffe://bank/ann"], "ann");
        for seed in 0..20_000 {
            let mut rng = SeededRng::new(seed);
            let mut bytes = valid.clone();
            for _ in 0..=rng.below(4) {
                let at = usize::try_from(rng.below(bytes.len() as u64)).unwrap();
                bytes[at] = rng.next_u64().to_be_bytes()[0];
            }
            bytes.truncate(usize::try_from(rng.below(2 * bytes.len() as u64)).unwrap());
            let total: usize = identities(&bytes).iter().map(String::len).sum();
            assert!(total <= 2 * valid.len(), "seed {seed}: more came out than went in");
        }
    }
}
