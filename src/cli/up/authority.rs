//! The authority of `apportion up --listen`, and the certificate that it gives this machine.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use jiff::{Timestamp, ToSpan, Zoned, tz::TimeZone};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};

use super::super::failure::Failure;
use super::folder::{Folder, write_private};

/// The key of the authority.
const KEY: &str = "authority.key";

/// Years that the authority is valid, and a certificate: each start makes a new certificate.
const YEARS: [i32; 2] = [20, 1];

/// The files of TLS.
#[derive(Clone, Debug)]
pub struct Certificates {
    /// The certificate of the authority.
    pub authority: PathBuf,
    /// The certificate of this machine.
    pub certificate: PathBuf,
    /// The key that goes with it.
    pub key: PathBuf,
}

impl Certificates {
    /// A new certificate for the machine that is reached as `names`, by the authority in the folder. The
    /// authority is made if it is not there, and stays then: other machines know it.
    ///
    /// # Errors
    ///
    /// If they cannot be made or written.
    pub fn make(folder: &Folder, names: &[String]) -> Result<Certificates, Failure> {
        let [authority, certificate, key] =
            ["authority.pem", "head.pem", "head.key"].map(|name| folder.at(name));
        let path = folder.at(KEY);
        if !path.exists() || !authority.exists() {
            let new = KeyPair::generate()?;
            write_private(&path, &new.serialize_pem())?;
            write_private(&authority, &authority_params()?.self_signed(&new)?.pem())?;
        }
        let issuer = Issuer::new(authority_params()?, read_key(&path)?);
        let own = KeyPair::generate()?;
        let mut params = CertificateParams::new(names)?;
        let [_, years] = YEARS;
        params = with_dates(params, years)?;
        params.distinguished_name.push(DnType::CommonName, "apportion up");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let signed = params.signed_by(&own, &issuer)?;
        write_private(&key, &own.serialize_pem())?;
        write_private(&certificate, &signed.pem())?;
        Ok(Certificates { authority, certificate, key })
    }
}

fn read_key(path: &Path) -> Result<KeyPair, Failure> {
    let text = fs::read_to_string(path);
    let text = text.with_context(|| format!("cannot read {}", path.display()))?;
    Ok(KeyPair::from_pem(&text).with_context(|| format!("{} holds no key", path.display()))?)
}

/// Returns the authority's own description. A certificate names its authority by this, so it stays
/// the same.
fn authority_params() -> Result<CertificateParams, Failure> {
    let mut params = CertificateParams::default();
    let [years, _] = YEARS;
    params = with_dates(params, years)?;
    params.distinguished_name.push(DnType::CommonName, "authority of apportion up");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    Ok(params)
}

/// Good from yesterday on, for clocks that are behind, and for so many years.
fn with_dates(mut params: CertificateParams, years: i32) -> Result<CertificateParams, Failure> {
    let now = Timestamp::now().to_zoned(TimeZone::UTC);
    let date = |zoned: Zoned| -> Result<_, Failure> {
        let (month, day) = (u8::try_from(zoned.month())?, u8::try_from(zoned.day())?);
        Ok(date_time_ymd(i32::from(zoned.year()), month, day))
    };
    params.not_before = date(now.checked_sub(1.day())?)?;
    params.not_after = date(now.checked_add(years.years())?)?;
    Ok(params)
}
