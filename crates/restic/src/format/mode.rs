//! Modes as Go counts them: its `os.FileMode` has setuid, setgid and sticky at bits of its own.

const PERMISSIONS: u32 = 0o777;
/// The bits of Go beside those of POSIX.
const FLAGS: [(u32, u32); 3] = [(1 << 23, 0o4000), (1 << 22, 0o2000), (1 << 20, 0o1000)];

/// The permissions of POSIX in a mode of Go; its bits for the type are dropped.
#[must_use]
pub fn posix(mode: u32) -> u32 {
    FLAGS.iter().filter(|(go, _)| mode & go != 0).fold(mode & PERMISSIONS, |mode, (_, posix)| mode | posix)
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_mode_of_go_has_its_special_bits_elsewhere() {
        let vectors = [
            (0o644, 0o644),
            (1 << 31 | 0o755, 0o755),
            (1 << 23 | 0o755, 0o4755),
            (1 << 22 | 0o750, 0o2750),
            (1 << 31 | 1 << 20 | 0o777, 0o1777),
            (u32::MAX, 0o7777),
        ];
        for (go, posix) in vectors {
            assert_eq!(super::posix(go), posix, "{go:o}");
        }
    }
}
