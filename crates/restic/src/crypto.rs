//! Encryption of the format: AES-256 in counter mode, authenticated by Poly1305-AES.
//!
//! An encrypted text is a nonce of 16 bytes, the cipher text, and a MAC of 16 bytes over the cipher text. The one-time key
//! of the MAC is `r`, and the nonce encrypted with the AES-128 key `k`
//! (restic: internal/crypto/crypto.go, doc/design.rst).

use aws_lc_rs::cipher::{AES_128, AES_256, DecryptingKey, DecryptionContext, UnboundCipherKey};
use aws_lc_rs::iv::FixedLength;
use poly1305::universal_hash::KeyInit;
use poly1305::{Key as MacKey, Poly1305};
use std::fmt;
use zeroize::Zeroizing;

/// The bytes of a nonce.
const NONCE: usize = 16;
/// The bytes of a MAC.
const MAC: usize = 16;

/// The bytes by which an encrypted text is longer than its plain text.
pub const OVERHEAD: usize = NONCE + MAC;

/// A text that is no encrypted text of this key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("its bytes do not authenticate: they are damaged, or of another key")]
pub struct NotAuthentic;

/// A key: of the repository as a whole, or derived from a password.
#[derive(Clone)]
pub struct Key {
    /// The key of AES-256.
    pub(crate) encrypt: Zeroizing<[u8; 32]>,
    /// The key of AES-128 in the MAC.
    pub(crate) mac_k: Zeroizing<[u8; 16]>,
    /// The multiplier of the MAC.
    pub(crate) mac_r: Zeroizing<[u8; 16]>,
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(…)")
    }
}

impl Key {
    /// Decrypts a text where it lies, and gives the range of its plain bytes.
    ///
    /// # Errors
    /// [`NotAuthentic`] for bytes that this key has not encrypted.
    pub fn open(&self, text: &mut [u8]) -> Result<std::ops::Range<usize>, NotAuthentic> {
        let end = text.len().checked_sub(MAC).filter(|end| *end >= NONCE).ok_or(NotAuthentic)?;
        let (nonce, rest) = text.split_first_chunk_mut::<NONCE>().ok_or(NotAuthentic)?;
        let (cipher_text, mac) = rest.split_at_mut(end - NONCE);
        let found = Poly1305::new(&self.mac_key(nonce)?).compute_unpadded(cipher_text);
        aws_lc_rs::constant_time::verify_slices_are_equal(&found, mac).map_err(|_| NotAuthentic)?;
        if !cipher_text.is_empty() {
            count(&AES_256, &*self.encrypt, nonce, cipher_text)?;
        }
        Ok(NONCE..end)
    }

    /// The one-time key of the MAC with this nonce.
    fn mac_key(&self, nonce: &[u8; NONCE]) -> Result<MacKey, NotAuthentic> {
        let mut key = MacKey::default();
        let (r, s) = key.split_at_mut(16);
        r.copy_from_slice(&*self.mac_r);
        // Counter mode gives the encrypted nonce when it is the counter, and the text is zero.
        s.fill(0);
        count(&AES_128, &*self.mac_k, nonce, s)?;
        Ok(key)
    }
}

/// Encrypts or decrypts a text in counter mode, which is the same.
fn count(
    algorithm: &'static aws_lc_rs::cipher::Algorithm,
    key: &[u8],
    nonce: &[u8; NONCE],
    text: &mut [u8],
) -> Result<(), NotAuthentic> {
    let key = UnboundCipherKey::new(algorithm, key).and_then(DecryptingKey::ctr).map_err(|_| NotAuthentic)?;
    let context = DecryptionContext::Iv128(FixedLength::from(nonce));
    key.decrypt(text, context).map(drop).map_err(|_| NotAuthentic)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> Key {
        let [encrypt, k, r] = [
            "303e8687b1d7db18421bdc6bb8588ccadac4d59ee87b8ff70c44e635790cafef",
            "ef4d8824cb80b2bcc5fbff8a9b12a42c",
            "cc8d4b948ee0ebfe1d415de921d10353",
        ]
        .map(|text| hex::decode(text).unwrap());
        Key {
            encrypt: Zeroizing::new(encrypt.try_into().unwrap()),
            mac_k: Zeroizing::new(k.try_into().unwrap()),
            mac_r: Zeroizing::new(r.try_into().unwrap()),
        }
    }

    /// Makes an encrypted text as restic does.
    pub(crate) fn seal(key: &Key, nonce: [u8; NONCE], plain: &[u8]) -> Vec<u8> {
        let mut text = [&nonce[..], plain].concat();
        count(&AES_256, &*key.encrypt, &nonce, &mut text[NONCE..]).unwrap();
        let mac = Poly1305::new(&key.mac_key(&nonce).unwrap()).compute_unpadded(&text[NONCE..]);
        text.extend_from_slice(&mac);
        text
    }

    #[test]
    fn the_mac_of_the_paper_of_poly1305_aes_is_right() {
        // D. J. Bernstein, The Poly1305-AES message-authentication code, appendix B.
        let vectors = [
            (
                "851fc40c3467ac0be05cc20404f3f700",
                "ec074c835580741701425b623235add6",
                "fb447350c4e868c52ac3275cf9d4327e",
                "f3f6",
                "f4c633c3044fc145f84f335cb81953de",
            ),
            (
                "a0f3080000f46400d0c7e9076c834403",
                "75deaa25c09f208e1dc4ce6b5cad3fbf",
                "61ee09218d29b0aaed7e154a2c5509cc",
                "",
                "dd3fab2251f11ac759f0887129cc2ee7",
            ),
        ];
        for (r, k, nonce, message, mac) in vectors {
            let bytes = |text: &str| hex::decode(text).unwrap();
            let key = Key {
                encrypt: Zeroizing::new([0; 32]),
                mac_k: Zeroizing::new(bytes(k).try_into().unwrap()),
                mac_r: Zeroizing::new(bytes(r).try_into().unwrap()),
            };
            let one_time = key.mac_key(&bytes(nonce).try_into().unwrap()).unwrap();
            let found = Poly1305::new(&one_time).compute_unpadded(&bytes(message));
            assert_eq!(hex::encode(found), mac);
        }
    }

    #[test]
    fn a_text_with_one_changed_bit_does_not_open() {
        let (key, plain) = (key(), b"one piece of a file".as_slice());
        let text = seal(&key, [7; NONCE], plain);
        let opened = |mut text: Vec<u8>| key.open(&mut text).map(|range| text[range].to_vec());
        assert_eq!(opened(text.clone()).as_deref(), Ok(plain));
        for bit in 0..text.len() * 8 {
            let mut changed = text.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(opened(changed), Err(NotAuthentic), "bit {bit}");
        }
        for length in 0..text.len() {
            assert_eq!(opened(text[..length].to_vec()), Err(NotAuthentic), "{length} bytes");
        }
        assert_eq!(opened(seal(&key, [7; NONCE], b"")).as_deref(), Ok(b"".as_slice()));
    }

    #[test]
    fn a_key_does_not_print_itself() {
        assert_eq!(format!("{:?}", key()), "Key(…)");
    }
}
