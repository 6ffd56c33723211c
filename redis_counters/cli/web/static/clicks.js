// The user's own likes. A click shows at once; then the server is told what the user wants, as often as it takes,
// for telling it again changes nothing. Its answer is what is shown in the end.

const ATTEMPTS = 6;
const HOLD = 300; // milliseconds after an answer during which numbers that were read before it may still arrive

const sleep = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

export class Clicks {
  constructor({ showCount, showLiked, say, told }) {
    this.showCount = showCount;
    this.showLiked = showLiked;
    this.say = say;
    this.told = told;
    this.posts = new Map();
  }

  begin(post, liked, likes) {
    // wanted: by the user; confirmed: by the server; likes: as the server counts, with `confirmed` in it.
    this.posts.set(post, { wanted: liked, confirmed: liked, likes, busy: false, holdUntil: 0, changed: 0 });
  }

  click(post) {
    const it = this.posts.get(post);
    it.wanted = !it.wanted;
    this.showLiked(post, it.wanted);
    this.refresh(post);
    if (!it.busy) this.tell(post);
    return it.wanted;
  }

  // Another tab of this browser has done it.
  elsewhere(post, liked) {
    const it = this.posts.get(post);
    if (it.busy || it.confirmed === liked) return;
    it.likes += Number(liked) - Number(it.confirmed);
    it.wanted = it.confirmed = liked;
    it.changed = performance.now();
    it.holdUntil = Date.now() + HOLD;
    this.showLiked(post, liked);
    this.refresh(post);
  }

  // What the server knew of this user when it was asked, or later.
  known(mine, asked) {
    for (const [post, it] of this.posts) {
      if (it.busy || it.changed > asked) continue;
      it.wanted = it.confirmed = mine.includes(post);
      this.showLiked(post, it.wanted);
    }
  }

  // What the server counts, by post.
  counted(likes) {
    for (const [post, it] of this.posts) {
      if (it.busy || Date.now() < it.holdUntil) continue;
      it.likes = likes[post - 1];
      this.refresh(post);
    }
  }

  refresh(post) {
    const it = this.posts.get(post);
    this.showCount(post, it.likes + Number(it.wanted) - Number(it.confirmed));
  }

  async tell(post) {
    const it = this.posts.get(post);
    it.busy = true;
    try {
      // The user may click again while the answer is awaited; only where it ends counts.
      while (it.wanted !== it.confirmed) {
        const wanted = it.wanted;
        const answer = await this.send(`/posts/${post}/like`, { liked: wanted ? "yes" : "no" });
        it.confirmed = wanted;
        it.likes = answer.likes;
        this.told(post, wanted);
      }
    } catch (error) {
      it.wanted = it.confirmed;
      this.showLiked(post, it.confirmed);
      this.say(error.message);
    } finally {
      it.busy = false;
      it.changed = performance.now();
      it.holdUntil = Date.now() + HOLD;
      this.refresh(post);
    }
  }

  // The server has taken this, once or several times. Throws an error with a sentence for the user.
  async send(url, fields) {
    for (let attempt = 1; ; attempt += 1) {
      try {
        const response = await fetch(url, {
          method: "POST",
          headers: { accept: "application/json" },
          body: new URLSearchParams(fields),
        });
        if (response.ok) return await response.json();
        if (response.status < 500) throw new Refused(await sentenceOf(response));
      } catch (error) {
        if (error instanceof Refused) throw error;
      }
      if (attempt === ATTEMPTS) throw new Error("The server does not answer. Try again in a moment.");
      await sleep(150 * 2 ** attempt);
    }
  }
}

class Refused extends Error {}

async function sentenceOf(response) {
  const text = await response.text();
  try {
    return JSON.parse(text).error;
  } catch {
    return text || "The server refused that.";
  }
}
