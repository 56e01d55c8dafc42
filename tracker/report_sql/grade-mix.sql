-- By days of UTC. Numbering them is much faster than cutting times off by a calendar.
counted AS (
    SELECT
        epoch_us(retrieved_at) // 86400000000 AS day_number,
        corpus,
        count(*) FILTER (grade = 'correct') AS correct,
        count(*) FILTER (grade = 'ambiguous') AS ambiguous,
        count(*) FILTER (grade = 'incorrect') AS incorrect,
        count(*) FILTER (grade IS NULL) AS ungraded
    FROM hits
    GROUP BY ALL
)
SELECT
    make_timestamptz(day_number * 86400000000) AS day,
    * EXCLUDE (day_number),
    correct / nullif(correct + ambiguous + incorrect, 0) AS correct_share,
    incorrect / nullif(correct + ambiguous + incorrect, 0) AS incorrect_share
FROM counted
ORDER BY day DESC, corpus
LIMIT $limit OFFSET $offset
