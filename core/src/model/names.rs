//! Names, and "did you mean": the most similar of the known names.

/// Name of a node, a user, a class or a pool. Cheap to clone: each share of each view contains a
/// name.
pub type Name = smol_str::SmolStr;

/// Returns the candidate that `name` was probably meant to be, if any. A single letter may be
/// wrong, or a third of the letters of a longer name. Beyond that a guess only confuses.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let distances = candidates
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(name, candidate), candidate));
    let (distance, candidate) = distances.min()?;
    let letters = name.chars().count();
    let is_close = distance <= 1 || distance * 3 <= letters;
    (is_close && distance < letters).then_some(candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_recognised_and_a_stranger_is_not() {
        let classes = ["normal", "high", "background"];
        let cases = [
            ("nromal", Some("normal")),
            ("hihg", Some("high")),
            ("backgruond", Some("background")),
            ("x", None),
            ("urgent", None),
        ];
        for (name, meant) in cases {
            assert_eq!(nearest(name, classes), meant, "{name}");
        }
    }
}
