//! Reads the other gateway's answer to an opening, in pieces as received.

use hf::hfpep::Answer;
use hf::hfpep::answer::ANSWER;
use hf::slep::Reason;

use crate::service::hfpep::connection::Connection;
use crate::service::hfpep::wire::Heard;

/// Reads the octets of the answer so far: `None` while the answer is incomplete.
pub fn read_answer(
    bearer: &mut Connection,
    answer: &mut Vec<u8>,
    magic: u8,
) -> Option<Result<Answer, Reason>> {
    let mut octets = [0; ANSWER];
    octets[..answer.len()].copy_from_slice(answer);
    while answer.len() < ANSWER {
        match bearer.read(&mut octets[answer.len()..]) {
            Heard::Octets(len) => {
                let from = answer.len();
                answer.extend_from_slice(&octets[from..from + len]);
            }
            Heard::Nothing => return None,
            Heard::End | Heard::Failed(_) | Heard::Reset => {
                return Some(Err(Reason::CONNECTION_RESET));
            }
        }
    }
    Some(Answer::parse(magic, octets).map_err(|_| Reason::PROTOCOL_ERROR))
}
