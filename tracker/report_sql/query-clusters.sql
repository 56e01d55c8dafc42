-- Of the 200 most frequent queries, each with the 20 documents that it returned most, those are
-- linked whose documents have a Jaccard index of at least 0.5; a cluster is what links lead through
-- (single linkage).
frequent AS (
    SELECT *
    FROM ranked
    ORDER BY query_number
    LIMIT 200
),
their_wordings AS (
    SELECT corpus, query, query_number FROM wordings JOIN frequent USING (corpus, asked)
),
theirs AS (
    SELECT retrieval_id, query_number FROM searches JOIN their_wordings USING (corpus, query)
),
finds AS MATERIALIZED (
    SELECT corpus, query_number, document_id
    FROM own_hits JOIN theirs USING (retrieval_id)
    WHERE returned
    GROUP BY corpus, query_number, document_id
    QUALIFY row_number() OVER (
        PARTITION BY query_number ORDER BY count(*) DESC, document_id
    ) <= 20
),
sizes AS (
    SELECT query_number, count(*) AS documents FROM finds GROUP BY ALL
),
common AS (
    SELECT a.query_number AS one, b.query_number AS other, count(*) AS documents
    FROM finds AS a
    JOIN finds AS b ON a.corpus = b.corpus AND a.document_id = b.document_id
        AND a.query_number < b.query_number
    GROUP BY ALL
),
links AS MATERIALIZED (
    SELECT one, other, common.documents / (a.documents + b.documents - common.documents) AS jaccard
    FROM common
    JOIN sizes AS a ON a.query_number = one
    JOIN sizes AS b ON b.query_number = other
    WHERE 2 * common.documents >= a.documents + b.documents - common.documents
),
both_ways AS (
    SELECT one, other FROM links
    UNION ALL
    SELECT other, one FROM links
),
-- The first of the queries that links lead to.
roots (query_number, root) USING KEY (query_number) AS (
    SELECT one, min(least(one, other)) FROM both_ways GROUP BY one
    UNION
    SELECT other, min(roots.root)
    FROM roots
    JOIN both_ways ON one = roots.query_number
    JOIN recurring.roots AS known ON known.query_number = other
    WHERE roots.root < known.root
    GROUP BY other
),
clusters AS (
    SELECT
        root,
        any_value(corpus) AS corpus,
        list(asked ORDER BY query_number) AS queries,
        sum(searches)::BIGINT AS searches
    FROM roots JOIN frequent USING (query_number)
    GROUP BY root
),
similarity AS (
    SELECT root, count(*) AS links, avg(jaccard) AS mean_jaccard
    FROM links JOIN roots ON query_number = one
    GROUP BY root
),
shared AS (
    SELECT root, document_id
    FROM finds JOIN roots USING (query_number) JOIN clusters USING (root)
    GROUP BY root, document_id
    HAVING count(*) = any_value(len(queries))
)
SELECT
    corpus,
    queries,
    searches,
    links,
    mean_jaccard,
    coalesce(
        (SELECT list(document_id ORDER BY document_id) FROM shared WHERE shared.root = clusters.root),
        []
    ) AS shared_documents
FROM clusters JOIN similarity USING (root)
ORDER BY searches DESC, root
LIMIT $limit OFFSET $offset
