//! The flights of TLS between a client and a server.

use sim::app::dialogue::Side;

/// The name of the server.
pub const NAME: &str = "www.example.org";
/// A browser's request for the page.
pub const REQUEST: &str = "GET /licences/apache-2.0.txt HTTP/1.1\r\n\
    Host: www.example.org\r\n\
    User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0\r\n\
    Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\n\
    Accept-Language: en-US,en;q=0.5\r\n\
    Accept-Encoding: identity\r\n\
    Connection: keep-alive\r\n\r\n";
/// The head of the answer.
const HEAD: &str = "HTTP/1.1 200 OK\r\n\
    Date: Sun, 22 Nov 2026 12:00:00 GMT\r\n\
    Server: Apache\r\n\
    Last-Modified: Fri, 06 Sep 2024 08:00:00 GMT\r\n\
    Content-Type: text/plain; charset=utf-8\r\n\
    Content-Length: 10000\r\n\r\n";
/// The page: the first 10,000 octets of a text.
const PAGE: &str = include_str!("../../../files/LICENSE-APACHE");

/// What one side says without waiting for the other.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Flight {
    pub speaker: Side,
    pub octets: usize,
}

/// A version of TLS.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Version {
    Tls12,
    Tls13,
}

const fn said(speaker: Side, octets: usize) -> Flight {
    Flight { speaker, octets }
}

/// The flights of TLS 1.3 when rustls fetches the page: hello; hello, certificates, end; end and
/// request; two tickets, answer and end.
const TLS_1_3: [Flight; 4] = [
    said(Side::Client, 249),
    said(Side::Server, 3068),
    said(Side::Client, 407),
    said(Side::Server, 10412),
];
/// The same of TLS 1.2: hello; hello, certificates, key; key, end; end; request; answer and end.
const TLS_1_2: [Flight; 6] = [
    said(Side::Client, 175),
    said(Side::Server, 2980),
    said(Side::Client, 93),
    said(Side::Server, 51),
    said(Side::Client, 334),
    said(Side::Server, 10242),
];

impl Version {
    /// What is said when the page is fetched.
    pub fn flights(self) -> &'static [Flight] {
        match self {
            Self::Tls12 => &TLS_1_2,
            Self::Tls13 => &TLS_1_3,
        }
    }

    /// Octets of all flights beyond request and answer.
    pub fn added(self) -> usize {
        let all: usize = self.flights().iter().map(|flight| flight.octets).sum();
        all.saturating_sub(REQUEST.len() + answer().len())
    }
}

/// The answer to the request.
pub fn answer() -> Vec<u8> {
    [HEAD.as_bytes(), &PAGE.as_bytes()[..10_000]].concat()
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::sync::Arc;

    use rcgen::{
        BasicConstraints, CertificateParams, CrlDistributionPoint, CustomExtension, DnType,
        ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose, SerialNumber,
    };
    use rustls::crypto::ring;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
    use rustls::version::{TLS12, TLS13};
    use rustls::{
        ClientConfig, ClientConnection, Connection, RootCertStore, ServerConfig, ServerConnection,
        SupportedProtocolVersion,
    };

    use super::*;

    /// A key of 2048 bits for the server and the authority that issues its certificate, and one of 4096
    /// bits for the root: sizes are what counts.
    const KEYS: [&str; 2] = [include_str!("server.key"), include_str!("root.key")];

    #[test]
    fn flights_are_those_of_rustls_with_a_chain_of_two_certificates() {
        let chain = chain();

        let flights = [&TLS13, &TLS12].map(|version| fetch(version, &chain));

        assert_eq!(flights, [TLS_1_3.to_vec(), TLS_1_2.to_vec()]);
    }

    #[test]
    fn certificates_are_as_long_as_those_of_web_servers() {
        let Chain { sent, .. } = chain();

        let octets = sent.map(|certificate| certificate.len());

        assert!((1_200..1_600).contains(&octets[0]), "the server's has {octets:?}");
        assert!((1_200..1_400).contains(&octets[1]), "the authority's has {octets:?}");
    }

    struct Chain {
        root: CertificateDer<'static>,
        /// The certificates of the server and of its issuer.
        sent: [CertificateDer<'static>; 2],
        key: PrivateKeyDer<'static>,
    }

    fn keys() -> [KeyPair; 2] {
        KEYS.map(|key| {
            KeyPair::from_pem_and_sign_algo(key, &rcgen::PKCS_RSA_SHA256).expect("an RSA key")
        })
    }

    /// A certificate of a web server as authorities issue them, theirs, and the root.
    fn chain() -> Chain {
        let [key, root_key] = keys();
        let root = authority("Example Root X1");
        let mut middle = authority("Example Intermediate R10");
        middle.crl_distribution_points = crl("http://x1.c.example.net/");
        middle.custom_extensions.push(authority_information("http://x1.i.example.net/"));
        middle.use_authority_key_identifier_extension = true;
        let mut leaf = CertificateParams::new([NAME, "example.org"].map(str::to_owned)).unwrap();
        leaf.distinguished_name = rcgen::DistinguishedName::new();
        leaf.distinguished_name.push(DnType::CommonName, NAME);
        leaf.serial_number = Some(SerialNumber::from_slice(&[0x5a; 18]));
        leaf.use_authority_key_identifier_extension = true;
        leaf.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
        leaf.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        leaf.crl_distribution_points = crl("http://r10.c.example.net/100.crl");
        leaf.custom_extensions =
            vec![policy(), authority_information("http://r10.i.example.net/"), timestamps()];

        let root_certificate = root.self_signed(&root_key).unwrap();
        let middle_certificate = middle.signed_by(&key, &Issuer::new(root, root_key)).unwrap();
        let certificate = leaf.signed_by(&key, &Issuer::new(middle, &key)).unwrap();
        Chain {
            root: root_certificate.into(),
            sent: [certificate.into(), middle_certificate.into()],
            key: PrivatePkcs8KeyDer::from(key.serialize_der()).into(),
        }
    }

    fn authority(name: &str) -> CertificateParams {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CountryName, "US");
        params.distinguished_name.push(DnType::OrganizationName, "Example Authority");
        params.distinguished_name.push(DnType::CommonName, name);
        params.serial_number = Some(SerialNumber::from_slice(&[0x5a; 16]));
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![
            KeyUsagePurpose::DigitalSignature,
            KeyUsagePurpose::KeyCertSign,
            KeyUsagePurpose::CrlSign,
        ];
        params.custom_extensions = vec![policy()];
        params
    }

    fn crl(uri: &str) -> Vec<CrlDistributionPoint> {
        vec![CrlDistributionPoint { uris: vec![uri.to_owned()] }]
    }

    /// Where the issuer's certificate is (RFC 5280, 4.2.2.1).
    fn authority_information(uri: &str) -> CustomExtension {
        let len = u8::try_from(uri.len()).unwrap();
        let issuers = [0x2b, 6, 1, 5, 5, 7, 0x30, 2];
        let mut description = vec![6, 8];
        description.extend(issuers);
        description.extend([0x86, len]);
        description.extend(uri.as_bytes());
        let len = u8::try_from(description.len()).unwrap();
        let content = [vec![0x30, len + 2, 0x30, len], description].concat();
        CustomExtension::from_oid_content(&[1, 3, 6, 1, 5, 5, 7, 1, 1], content)
    }

    /// That the domain was validated (RFC 5280, 4.2.1.4).
    fn policy() -> CustomExtension {
        let content = vec![0x30, 10, 0x30, 8, 6, 6, 0x67, 0x81, 0x0c, 1, 2, 1];
        CustomExtension::from_oid_content(&[2, 5, 29, 32], content)
    }

    /// Two signed certificate timestamps (RFC 6962, 3.2) of ECDSA logs, 119 octets each, which nobody
    /// here checks.
    fn timestamps() -> CustomExtension {
        let list = [vec![0, 242], [vec![0, 119], vec![0x5a; 119]].concat().repeat(2)].concat();
        let content = [vec![4, 0x81, u8::try_from(list.len()).unwrap()], list].concat();
        CustomExtension::from_oid_content(&[1, 3, 6, 1, 4, 1, 11_129, 2, 4, 2], content)
    }

    /// The flights of a fetch of the page.
    fn fetch(version: &'static SupportedProtocolVersion, chain: &Chain) -> Vec<Flight> {
        let provider = Arc::new(ring::default_provider());
        let mut roots = RootCertStore::empty();
        roots.add(chain.root.clone()).unwrap();
        let mut client = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[version])
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        client.alpn_protocols = vec![b"http/1.1".to_vec()];
        let mut server = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[version])
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(chain.sent.to_vec(), chain.key.clone_key())
            .unwrap();
        server.alpn_protocols = vec![b"http/1.1".to_vec()];
        let name = ServerName::try_from(NAME).unwrap();
        let client = ClientConnection::new(Arc::new(client), name).unwrap();
        let server = ServerConnection::new(Arc::new(server)).unwrap();
        converse(client.into(), server.into())
    }

    /// Lets both speak in turns until the client has the answer.
    fn converse(mut client: Connection, mut server: Connection) -> Vec<Flight> {
        let (mut flights, mut asked, mut heard, mut got) = (vec![], false, vec![], vec![]);
        while got.len() < answer().len() {
            if !asked && !client.is_handshaking() {
                asked = true;
                client.writer().write_all(REQUEST.as_bytes()).unwrap();
            }
            flights.push(said(Side::Client, carry(&mut client, &mut server)));
            read(&mut server, &mut heard);
            if heard == REQUEST.as_bytes() {
                server.writer().write_all(&answer()).unwrap();
                server.send_close_notify();
            }
            flights.push(said(Side::Server, carry(&mut server, &mut client)));
            read(&mut client, &mut got);
        }
        assert_eq!(got, answer());
        flights
    }

    /// Carries all that one has to say to the other; how many octets.
    fn carry(from: &mut Connection, to: &mut Connection) -> usize {
        let mut octets = Vec::new();
        while from.wants_write() {
            from.write_tls(&mut octets).unwrap();
        }
        let mut rest = &octets[..];
        while !rest.is_empty() {
            to.read_tls(&mut rest).unwrap();
            to.process_new_packets().unwrap();
        }
        octets.len()
    }

    fn read(from: &mut Connection, to: &mut Vec<u8>) {
        // It ends with an error while there is no more.
        let _ = from.reader().read_to_end(to);
    }
}
