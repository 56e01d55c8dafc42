-- What every report begins with: the window's rows, under one name each, and queries as they are
-- counted, without regard to case and to the white space around them. A judgement belongs to the
-- time of its search, so that a late one is not lost. Reading these twice is cheaper than keeping
-- them: each report needs a few of the columns only.
WITH RECURSIVE searches AS NOT MATERIALIZED (
    SELECT *, lower(trim(query, E' \t\r\n')) AS asked
    FROM retrievals
    WHERE tenant = $tenant AND corpus = coalesce($corpus, corpus)
        AND retrieved_at >= $since AND retrieved_at < $until
),
-- Queries as they were written, each once: there are fewer of them to normalise than searches.
wordings AS NOT MATERIALIZED (
    SELECT
        corpus,
        query,
        lower(trim(query, E' \t\r\n')) AS asked,
        count(*) AS searches,
        min(retrieved_at) AS first_searched_at,
        max(retrieved_at) AS last_searched_at
    FROM searches
    GROUP BY corpus, query
),
-- Queries as they are counted, the most frequent first.
ranked AS NOT MATERIALIZED (
    SELECT
        corpus,
        asked,
        sum(searches)::BIGINT AS searches,
        row_number() OVER (ORDER BY sum(searches) DESC, corpus, asked) AS query_number
    FROM wordings
    GROUP BY corpus, asked
),
hits AS NOT MATERIALIZED (
    SELECT *
    FROM retrieved_hits
    WHERE tenant = $tenant AND corpus = coalesce($corpus, corpus)
        AND retrieved_at >= $since AND retrieved_at < $until
),
-- Those of the corpus itself: what a fallback found is no document of it.
own_hits AS NOT MATERIALIZED (
    SELECT * FROM hits WHERE origin IS NULL
),
judgements AS NOT MATERIALIZED (
    SELECT *
    FROM feedback
    WHERE tenant = $tenant AND corpus = coalesce($corpus, corpus)
        AND retrieved_at >= $since AND retrieved_at < $until
),
-- How each document was judged.
judged AS NOT MATERIALIZED (
    SELECT
        corpus,
        document_id,
        count(*) AS judgements,
        count(*) FILTER (outcome = 'not_relevant') AS not_relevant,
        count(*) FILTER (outcome = 'partially_relevant') AS partially_relevant,
        count(*) FILTER (outcome = 'relevant') AS relevant,
        count(*) FILTER (outcome = 'highly_relevant') AS highly_relevant
    FROM judgements
    GROUP BY ALL
),
-- The documents that were there when the window ended; one written since had no chance in it.
stock AS NOT MATERIALIZED (
    SELECT corpus, document_id, title, updated_at
    FROM documents
    WHERE tenant = $tenant AND corpus = coalesce($corpus, corpus)
        AND updated_at < $until AND (deleted_at IS NULL OR deleted_at >= $until)
),
