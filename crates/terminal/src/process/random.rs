//! Random bytes.

use std::sync::Arc;
use uuid::Uuid;

/// Fills what it is given with random bytes.
pub type Random = Arc<dyn Fn(&mut [u8]) + Send + Sync>;

/// The random bytes of the operating system.
pub fn random() -> Random {
    Arc::new(|bytes: &mut [u8]| {
        for piece in bytes.chunks_mut(8) {
            let uuid = Uuid::new_v4().into_bytes();
            // Two of them have bits that say what a UUID it is.
            let random = uuid.iter().enumerate().filter(|(at, _)| !matches!(at, 6 | 8)).map(|(_, byte)| *byte);
            piece.iter_mut().zip(random).for_each(|(to, from)| *to = from);
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bit_can_be_either() {
        let random = random();
        let (mut ones, mut zeros) = ([0_u8; 37], [0_u8; 37]);
        for _ in 0..200 {
            let mut bytes = [0; 37];
            random(&mut bytes);
            for (at, byte) in bytes.iter().enumerate() {
                ones[at] |= byte;
                zeros[at] |= !byte;
            }
        }
        assert_eq!((ones, zeros), ([255; 37], [255; 37]));
    }
}
