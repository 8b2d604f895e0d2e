//! Names the namespace or partition that an agent of Consul Community has refused. The agent's
//! answer names only the parameter.

use percent_encoding::percent_decode_str;

use crate::http::Response;

/// The namespace and partition of a request.
#[derive(Clone, Debug)]
pub(crate) struct Named(Vec<(&'static str, String)>);

impl Named {
    /// Those in this target.
    pub(crate) fn in_target(target: &str) -> Self {
        let query = target.split_once('?').map_or("", |(_, query)| query);
        let named = query.split('&').filter_map(|pair| {
            let (name, value) = pair.split_once('=')?;
            let (name, _) = PARAMETERS
                .iter()
                .find(|(parameter, _)| *parameter == name)?;
            Some((
                *name,
                percent_decode_str(value).decode_utf8_lossy().into_owned(),
            ))
        });
        Self(named.collect())
    }

    /// The answer. If it refuses one of them, its name is added.
    pub(crate) fn name_in(&self, answer: Response) -> Response {
        if answer.status() != 400 || self.0.is_empty() {
            return answer;
        }
        let text = String::from_utf8_lossy(answer.body());
        let is_refused =
            |(name, _): &&(&str, String)| text.contains(&format!("query parameter: \"{name}\""));
        let Some((name, value)) = self.0.iter().find(is_refused) else {
            return answer;
        };
        let what = PARAMETERS.iter().find(|(parameter, _)| parameter == name);
        let what = what.map_or(*name, |(_, what)| what);
        let named = Response::new(400, format!("{what} {value:?}: {text}"));
        answer
            .headers()
            .fold(named, |named, (name, value)| named.with_header(name, value))
    }
}

/// Their names in a request, and the words for people.
const PARAMETERS: [(&str, &str); 2] = [("ns", "namespace"), ("partition", "partition")];

#[cfg(test)]
mod tests {
    use super::*;

    /// The text of agents of 1.8.7 and 1.23.
    const REFUSAL: &str = "Bad request: Invalid query parameter: \"ns\" - \
                           Namespaces are a Consul Enterprise feature";

    fn told(target: &str, status: u16, text: &str) -> String {
        let answer = Response::new(status, text).with_header("X-Consul-Index", "1");
        let answer = Named::in_target(target).name_in(answer);
        assert_eq!(
            (answer.status(), answer.header("X-Consul-Index")),
            (status, Some("1"))
        );
        String::from_utf8_lossy(answer.body()).into_owned()
    }

    #[test]
    fn a_refusal_names_the_namespace_or_the_partition() {
        let target = "/v1/kv/a?consistent&ns=te%2Fam&partition=west";
        assert_eq!(
            told(target, 400, REFUSAL),
            format!("namespace \"te/am\": {REFUSAL}")
        );
        let partition = REFUSAL.replace("\"ns\"", "\"partition\"");
        assert_eq!(
            told(target, 400, &partition),
            format!("partition \"west\": {partition}")
        );
    }

    #[test]
    fn other_answers_stay_as_they_are() {
        let target = "/v1/kv/a?ns=team";
        for (target, status, text) in [
            (target, 400, "Bad request: invalid index"),
            (target, 200, REFUSAL),
            ("/v1/kv/a", 400, REFUSAL),
            ("/v1/kv/a?dc=ns", 400, REFUSAL),
        ] {
            assert_eq!(told(target, status, text), text);
        }
    }
}
